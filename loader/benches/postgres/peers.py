"""Reads a table of PostgreSQL into columnar memory with another library, and says what it took.

    peers.py <peer> <url> <table> <middle page> <connections>

Each peer is used in the fastest way that its documentation shows: binary COPY where it has that,
two ranges of pages over two connections where it does not cut tables by itself. The clock runs
from before the connection is made until the result is there; imports are not measured, checks
come after it. The last line on stdout is the result as JSON.
"""

import json
import resource
import sys
import threading
import time
from pathlib import Path


def halves(table, middle, connections):
    """The queries that together give every row once, a range of pages each."""
    if connections == 1:
        return [f"SELECT * FROM {table}"]
    return [
        f"SELECT * FROM {table} WHERE ctid < '({middle},0)'::tid",
        f"SELECT * FROM {table} WHERE ctid >= '({middle},0)'::tid",
    ]


def connectorx(url, table, middle, connections):
    import connectorx as cx

    def read():
        queries = halves(table, middle, connections)
        return cx.read_sql(url, queries, return_type="arrow", protocol="binary")

    return f"ConnectorX {cx.__version__}", read


def polars(url, table, middle, connections):
    import connectorx  # noqa: F401 (its engine, so that importing it is not measured)
    import polars as pl

    def read():
        queries = halves(table, middle, connections)
        return pl.read_database_uri(queries, url, engine="connectorx")

    return f"polars {pl.__version__}", read


def duckdb_usual(url, table, middle, connections):
    """As it comes: rows keep the order of the table."""
    return duckdb(url, table, middle, connections, keep_order=True)


def duckdb(url, table, _middle, connections, keep_order=False):
    import duckdb as db
    import duckdb_extension_postgres_scanner as scanner
    import pyarrow  # noqa: F401

    # The extension comes as a file in its package; nothing is downloaded.
    extension = next(Path(scanner.__file__).parent.glob("extensions/*/*.duckdb_extension"))
    connection = db.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"SET threads = {connections}")
    if not keep_order:
        connection.execute("SET preserve_insertion_order = false")

    def read():
        connection.execute(f"ATTACH '{url}' AS pg (TYPE postgres, READ_ONLY)")
        return connection.sql(f"SELECT * FROM pg.public.{table}").to_arrow_table()

    form = "as it comes" if keep_order else "rows in any order"
    return f"DuckDB {db.__version__}, {form}", read


def adbc(url, table, middle, connections):
    import adbc_driver_postgresql
    import pyarrow
    from adbc_driver_postgresql import dbapi

    def fetch(query, tables, position):
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            tables[position] = cursor.fetch_arrow_table()

    def read():
        queries = halves(table, middle, connections)
        tables = [None] * len(queries)
        threads = [
            threading.Thread(target=fetch, args=(query, tables, position))
            for position, query in enumerate(queries)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if None in tables:
            sys.exit("a thread failed, see above")
        return pyarrow.concat_tables(tables)

    return f"ADBC {adbc_driver_postgresql.__version__}", read


PEERS = {
    "connectorx": connectorx,
    "polars": polars,
    "duckdb": duckdb,
    "duckdb-usual": duckdb_usual,
    "adbc": adbc,
}


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_rss_mb():
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def content(result):
    """Rows, the sum of the target and the NULLs of the first feature: what must be right."""
    if hasattr(result, "num_rows"):
        import pyarrow.compute

        total = pyarrow.compute.sum(result["close_pct"]).as_py()
        return result.num_rows, total, result["f001"].null_count
    return result.height, result["close_pct"].sum(), result["f001"].null_count()


def main():
    peer, url, table, middle, connections = sys.argv[1:]
    connections = int(connections)
    name, read = PEERS[peer](url, table, int(middle), connections)
    start, cpu = time.perf_counter(), cpu_s()
    result = read()
    wall, cpu, peak = time.perf_counter() - start, cpu_s() - cpu, peak_rss_mb()
    rows, total, nulls = content(result)
    print(
        json.dumps(
            {
                "name": f"{name}, {connections} connection{'s'[:connections > 1]}",
                "wall_s": wall,
                "cpu_s": cpu,
                "peak_rss_mb": peak,
                "rows": rows,
                "sum_close_pct": total,
                "nulls_f001": nulls,
            }
        )
    )


if __name__ == "__main__":
    main()
