"""Spark brings a job's data in and carries it away.

from operators.spark import register

register(spark)
lines.writeStream.format("hailer").option("input", "lines").start()
counts = spark.readStream.format("hailer").option("output", "counts").load()
"""

from operators.broker.budget import BrokerLimits
from operators.control.job_messages import Outcome
from operators.control.job_program import JobProgram
from operators.spark.job_on_spark import JobOnSpark
from operators.spark.launch.session import SparkOptions, open_session
from operators.spark.source import HailerSource, register

__all__ = [
    "BrokerLimits",
    "HailerSource",
    "JobOnSpark",
    "JobProgram",
    "Outcome",
    "SparkOptions",
    "open_session",
    "register",
]
