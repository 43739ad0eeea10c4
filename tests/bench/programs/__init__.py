"""Programs that benches run in processes of their own."""

from tests.bench.programs.run import count_instructions, run_program

__all__ = ["count_instructions", "run_program"]
