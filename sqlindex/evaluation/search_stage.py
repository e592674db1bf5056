"""Search the queries in one index after another, and measure what comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from sqlindex.cancellation import CancelToken
from sqlindex.errors import HeadMovedError, LexicalHistoryError, UsageError
from sqlindex.evaluation.baseline import Baseline, require_ours
from sqlindex.evaluation.configurations import Configuration
from sqlindex.evaluation.judgements import Judgements
from sqlindex.evaluation.naming import DocumentNames, document_of_chunk
from sqlindex.evaluation.outputs import qrels_file, run_file, run_name
from sqlindex.evaluation.query_vectors import QueryVectors
from sqlindex.evaluation.report import Level, RunResult
from sqlindex.evaluation.results import Judged, queries_to_run, result_of
from sqlindex.evaluation.runs import run_queries
from sqlindex.evaluation.trec import write_qrels, write_run
from sqlindex.index import Index
from sqlindex.indexing.report import Progress, ProgressSink
from sqlindex.model.history import Generation
from sqlindex.model.requests import Mode
from sqlindex.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Found:
    """What one configuration gave.

    Attributes:
        generation: that answered.
        judged: what its runs were measured with.
        unknown_judged: names of relevant documents that the generation lacks.
        runs: one for each mode.
    """

    configuration: Configuration
    generation: Generation
    judged: Judged
    unknown_judged: tuple[str, ...]
    runs: tuple[RunResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStage:
    """What is the same for all configurations of an evaluation; see `EvalOptions`.

    Attributes:
        baseline: what the report will be compared with.
        vectors: of the queries; None without a mode that needs them.
        configurations: all, in the order in which they will be searched.
    """

    judgements: Judgements
    baseline: Baseline | None
    modes: tuple[Mode, ...]
    measures: tuple[str, ...]
    level: Level
    depth: int | None
    limit_queries: int | None
    save_runs: Path | None
    vectors: QueryVectors | None
    configurations: tuple[Configuration, ...]
    cancel: CancelToken
    progress: ProgressSink

    def require_new_runs(self) -> None:
        """Keep runs that were saved before: their files do not tell what they were made with.

        Raises:
            UsageError: one of the files to be saved is there.
        """
        if self.save_runs is None:
            return
        for configuration, mode in product(self.configurations, self.modes):
            path = run_file(self.save_runs, run_name(self.configurations, configuration, mode))
            if path.exists():
                raise UsageError(
                    f"{path} is there already, and a saved run is not written over",
                    hint="save to another folder, name the configuration otherwise, or delete the file",
                )

    def search(
        self, path: Path, configuration: Configuration, at: int | str | None = None
    ) -> Found:
        """Search all queries in each mode, in one pinned generation; the index is only read."""
        with (
            Index.open(path, embedder=self.vectors, search_config=configuration.search) as index,
            index.snapshot(at) as snapshot,
        ):
            generation = snapshot.info()
            names = DocumentNames(snapshot)
            judgements = names.judged(self.judgements)
            judged = self._judged(names, judgements)
            if self.baseline is not None:
                require_ours(
                    self.baseline, judged, lambda name: names.has(judged.document_of(name))
                )
            if self.save_runs is not None:
                write_qrels(
                    qrels_file(self.save_runs, self.configurations, configuration, self.level),
                    judged.qrels,
                )
            try:
                runs = tuple(
                    self._run(snapshot, names, judged, configuration, mode) for mode in self.modes
                )
            except LexicalHistoryError as exc:
                if not generation.is_head:
                    raise
                raise HeadMovedError(
                    f"a generation was published during an evaluation of {generation.number}",
                    hint="evaluate again while nothing else writes to the index",
                ) from exc
        return Found(configuration, generation, judged, names.unknown(judgements.qrels), runs)

    def _judged(self, names: DocumentNames, judgements: Judgements) -> Judged:
        queries = queries_to_run(judgements, self.limit_queries)
        qrels = {
            query.id: judgements.qrels[query.id]
            for query in queries
            if query.id in judgements.qrels
        }
        judged = Judged(queries, qrels, self.measures)
        if self.level == "document":
            return judged
        return replace(judged, qrels=names.chunk_qrels(qrels), document_of=document_of_chunk)

    def _run(
        self,
        snapshot: Snapshot,
        names: DocumentNames,
        judged: Judged,
        configuration: Configuration,
        mode: Mode,
    ) -> RunResult:
        name = run_name(self.configurations, configuration, mode)
        finished = (
            self.configurations.index(configuration) * len(self.modes) + self.modes.index(mode)
        ) * len(judged.queries)
        total = len(self.configurations) * len(self.modes) * len(judged.queries)
        vectors = None if mode == "lexical" else self.vectors
        answers, latency = run_queries(
            snapshot,
            {query.id: query.text for query in judged.queries},
            mode,
            name_of=names.of_document if self.level == "document" else names.of_chunk,
            depth=self.depth,
            prepare=None if vectors is None else lambda text: vectors.prepare(text, self.cancel),
            cancel=self.cancel,
            progress=lambda done, _: self.progress(Progress("search", finished + done, total)),
        )
        if self.save_runs is not None:
            rankings = {query_id: answer.ranking for query_id, answer in answers.items()}
            write_run(run_file(self.save_runs, name), rankings, name)
        return result_of(
            name,
            answers,
            judged,
            configuration=configuration.name,
            mode=mode,
            latency=latency,
        )
