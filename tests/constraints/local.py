"""A compiler that builds in this process, for tests that need many automata."""

from __future__ import annotations

from unmask.constraints.build import ConstraintError, build
from unmask.constraints.compiler import ConstraintCompiler
from unmask.constraints.worker import Result


class LocalCompiler(ConstraintCompiler):
    def _run(self, job, form):
        try:
            return Result(build(job.pattern, job.tokens, job.vocab_size, job.end_ids, job.own).to_bytes())
        except ConstraintError as error:
            return Result(reason=str(error))
