"""`format("hailer")`: a job's inputs and outputs as a data source of Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from framework.errors import ConfigError
from operators.broker.endpoint import JobEndpoint, find_endpoint
from operators.spark.gc_tuning import keep_what_is_loaded
from operators.spark.options import check_options, flag, positive
from operators.spark.reader import BatchReader, Origin, StreamReader
from operators.spark.schemas import check_fits, spark_schema, spoken_schema
from operators.spark.writer import BatchWriter, StreamWriter, WriteTarget


def register(spark: SparkSession) -> None:
    """Let `spark` read and write the format `hailer`."""
    spark.dataSource.register(HailerSource)


class HailerSource(DataSource):
    """The inputs and outputs of a job that was started with `hailer run JOB.py --serve`.

    Options: `job` and `directory` (which job, and where it was started; the only one of the current directory unless
    given), `input` or `output` (its only one unless given), `final` (the input ends with what is written),
    `batch` (names a DataFrame, which counts once however often it is written under that name),
    `maxRowsPerTrigger`, `maxBytesPerTrigger` (what a streaming query reads at a time).
    """

    @classmethod
    def name(cls) -> str:
        return "hailer"

    def schema(self) -> StructType:
        endpoint = self._endpoint()
        output = endpoint.choose_output(self.options.get("output"))
        return spark_schema(endpoint.outputs[output], f"output {output!r} of job {endpoint.name!r}")

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._origin(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(
            self._origin(schema),
            rows_max=positive(self.options, "maxRowsPerTrigger"),
            bytes_max=positive(self.options, "maxBytesPerTrigger"),
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ConfigError("a job's input cannot be overwritten; write with .mode('append')")
        return BatchWriter(self._target(schema), self.options.get("batch"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        if "batch" in self.options:
            raise ConfigError("option 'batch' names a DataFrame; the batches of a stream are known by its checkpoint")
        return StreamWriter(self._target(schema), self.options.get("checkpointLocation"))

    def _endpoint(self) -> JobEndpoint:
        check_options(self.options)
        endpoint = find_endpoint(Path(self.options.get("directory") or Path.cwd()), self.options.get("job"))
        keep_what_is_loaded()
        return endpoint

    def _target(self, schema: StructType) -> WriteTarget:
        endpoint = self._endpoint()
        input = endpoint.choose_input(self.options.get("input"))
        declared = endpoint.inputs[input]
        if declared is not None:
            check_fits(schema, declared, f"input {input!r} of job {endpoint.name!r}")
        return WriteTarget(endpoint.client, input, declared, final=flag(self.options, "final"))

    def _origin(self, schema: StructType) -> Origin:
        endpoint = self._endpoint()
        output = endpoint.choose_output(self.options.get("output"))
        where = f"output {output!r} of job {endpoint.name!r}"
        spoken = spoken_schema(schema)
        if not spoken.equals(spoken_schema(spark_schema(endpoint.outputs[output], where))):
            raise ConfigError(f"{where} is not what .schema(...) says; leave it out, and the job's own is taken")
        return Origin(endpoint.client, endpoint.name, endpoint.run, output, spoken)
