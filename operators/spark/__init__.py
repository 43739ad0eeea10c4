"""Jobs beside Spark: their workers on its executors."""

from operators.spark.job_on_spark import JobOnSpark

__all__ = ["JobOnSpark"]
