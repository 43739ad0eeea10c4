"""The memory that the RocksDB stores of a process share, and how databases and tables keep within it.

A database has a fixed overhead. Of the rest, half is for caches and the other half for malloc's fragmentation, as
measured. Tables of columns, each with a database behind it, have half of the rest first: what they take is counted
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, WriteBufferManager

MIB = 1024 * 1024

MEMORY_BYTES = 256 * MIB
"""What a process gives to its stores unless told otherwise."""

MEMORY_BYTES_MIN = 32 * MIB
"""Less does not hold RocksDB's overhead."""

OVERHEAD_BYTES = 8 * MIB
"""What RocksDB takes beside its caches, and again for each database, as measured: threads, open tables, compactions."""

SHARE_MIN = 8
"""Caches get at least this fraction (one in 8) of a budget, and so do tables, however many databases share it."""


@dataclass(slots=True)
class Budget:
    """The memory that some databases share: blocks read, and what waits to be written, charged to one cache."""

    memory_bytes: int
    cache: Cache
    buffers: WriteBufferManager
    table_bytes: int = 0
    """What each table of columns may take."""

    @staticmethod
    def of(memory_bytes: int) -> Budget:
        """A budget of `memory_bytes`, for one database so far."""
        cache = Cache(memory_bytes)
        buffers = WriteBufferManager.new_write_buffer_manager_with_cache(memory_bytes, False, cache)
        budget = Budget(memory_bytes, cache, buffers)
        budget.share(databases=1, tables=0)
        return budget

    def share(self, *, databases: int, tables: int) -> None:
        """Divide it between `databases`, of which `tables` are behind tables of columns."""
        room = self.memory_bytes - OVERHEAD_BYTES * (1 + databases)
        least = self.memory_bytes // SHARE_MIN
        if tables:
            for_tables = max(room * tables // (2 * databases), least)
            self.table_bytes = for_tables // tables
            room -= for_tables
        cache_bytes = max(room // 2, least)
        self.cache.set_capacity(cache_bytes)
        self.buffers.set_buffer_size(cache_bytes // 2)

    def options(self, *, behind_table: bool = False) -> Options:
        """How a database keeps within it. Behind a table states are small: scanning or decompressing a block costs more
        than finding it, so blocks are smaller and uncompressed."""
        tables = BlockBasedOptions()
        tables.set_block_cache(self.cache)
        tables.set_cache_index_and_filter_blocks(True)
        tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
        tables.set_bloom_filter(10, False)
        if behind_table:
            tables.set_block_size(2048)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(tables)
        options.set_compression_type(DBCompressionType.none() if behind_table else DBCompressionType.lz4())
        options.set_write_buffer_manager(self.buffers)
        options.set_write_buffer_size(self.buffers.get_buffer_size() // 2)
        options.set_max_total_wal_size(self.memory_bytes)
        options.set_target_file_size_base(max(MIB, self.memory_bytes // 8))
        options.set_max_bytes_for_level_base(max(4 * MIB, self.memory_bytes // 2))
        options.set_compaction_readahead_size(256 * 1024)
        options.set_max_background_jobs(2)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        return options
