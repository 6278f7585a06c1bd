"""Gets the batches of a training epoch with a query for each, and says what an epoch takes.

    data_sets.py <form> <url> <table> <connections> <shape>

A PyTorch Dataset whose items are batches, behind a DataLoader: as tutorials write it, and in the
best form its documentation shows: Arrow instead of Python objects, a worker and a connection per
core. An epoch of queries takes minutes, so a part of it is timed, in steady state, and the name
says of how many batches. The first batches warm up and are what is checked. The last line on stdout
is the result as JSON.
"""

import json
import os
import sys
import time
from pathlib import Path

import adbc_driver_postgresql
import numpy as np
import psycopg
import torch
from adbc_driver_postgresql import dbapi
from torch.utils.data import DataLoader, Dataset

from peers import cpu_s, peak_rss_mb

# Batches that are timed.
MEASURED = 8


class Batches(Dataset):
    """An item is a batch of windows, looked up when it is asked for."""

    def __init__(self, url, table, shape):
        self.url, self.table = url, table
        self.lookback, self.batch, self.step = shape["lookback"], shape["batch"], shape["step"]
        with psycopg.connect(url) as connection:
            symbols = connection.execute(f"SELECT DISTINCT symbol FROM {table} ORDER BY symbol")
            self.symbols = [symbol for (symbol,) in symbols]
            days = connection.execute(
                f"SELECT trade_date FROM {table} WHERE symbol = %s ORDER BY trade_date",
                [self.symbols[0]],
            )
            self.days = [day for (day,) in days]
            described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
        self.columns = [column.name for column in described[2:]]
        self.per_symbol = len(self.days) - self.lookback + 1
        self.windows = len(self.symbols) * self.per_symbol
        self.connection = None

    def __len__(self):
        return self.windows // self.batch

    def __getitem__(self, batch):
        # A worker needs a connection of its own.
        if self.connection is None:
            self.connection = self.connect()
        values = torch.from_numpy(self.look_up(batch))
        return values.view(self.batch, self.lookback, len(self.columns))

    def spans(self, batch):
        """Symbol, first and last day of every window."""
        for window in range(batch * self.batch, (batch + 1) * self.batch):
            symbol, first = divmod(window * self.step % self.windows, self.per_symbol)
            last = first + self.lookback - 1
            yield self.symbols[symbol], self.days[first], self.days[last]

    def query(self, spans):
        columns = ", ".join(f"f.{column}" for column in self.columns)
        return (
            f"SELECT {columns} FROM {spans} AS w(symbol, first, last, place) "
            f"JOIN {self.table} f ON f.symbol = w.symbol "
            "AND f.trade_date BETWEEN w.first AND w.last ORDER BY w.place, f.trade_date"
        )


class Usual(Batches):
    """Rows as Python objects."""

    name = f"psycopg {psycopg.__version__}"

    def connect(self):
        return psycopg.connect(self.url)

    def look_up(self, batch):
        spans = "unnest(%s::text[], %s::date[], %s::date[]) WITH ORDINALITY"
        symbols, first, last = (list(column) for column in zip(*self.spans(batch)))
        rows = self.connection.execute(self.query(spans), (symbols, first, last)).fetchall()
        return np.array(rows, dtype=np.float32)


class Best(Batches):
    """Columns as Arrow; without parameters the driver gets them by binary COPY."""

    name = f"ADBC {adbc_driver_postgresql.__version__}"

    def connect(self):
        return dbapi.connect(self.url)

    def look_up(self, batch):
        values = ", ".join(
            f"('{symbol}', date '{first}', date '{last}', {place})"
            for place, (symbol, first, last) in enumerate(self.spans(batch))
        )
        with self.connection.cursor() as cursor:
            cursor.execute(self.query(f"(VALUES {values})"))
            table = cursor.fetch_arrow_table()
        rows = np.empty((table.num_rows, table.num_columns), dtype=np.float32)
        for position, column in enumerate(table.columns):
            rows[:, position] = column.to_numpy()
        return rows


FORMS = {"query-per-batch-usual": Usual, "query-per-batch": Best}


def cpu_of(processes):
    """Of workers that are still at work."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    form, url, table, connections, shape = sys.argv[1:]
    shape = json.loads(shape)
    data = FORMS[form](url, table, shape)
    workers = int(connections) if int(connections) > 1 else 0
    loader = DataLoader(data, batch_size=None, num_workers=workers)
    batches = iter(loader)
    checked = [next(batches) for _ in range(shape["checked"])]

    processes = getattr(batches, "_workers", [])
    start, cpu = time.perf_counter(), cpu_s() + cpu_of(processes)
    for _ in range(MEASURED):
        next(batches)
    wall, cpu = time.perf_counter() - start, cpu_s() + cpu_of(processes) - cpu
    peak = peak_rss_mb()

    epoch = len(data)
    checked = torch.cat(checked).double()
    target, feature = (data.columns.index(name) for name in ("close_pct", "f001"))
    print(
        json.dumps(
            {
                "name": f"torch {torch.__version__} DataLoader, a query per batch by {data.name}, "
                f"{workers} workers, from {MEASURED} of {epoch} batches",
                "wall_s": wall * epoch / MEASURED,
                "cpu_s": cpu * epoch / MEASURED,
                "peak_rss_mb": peak,
                "rows": checked.shape[0] * checked.shape[1],
                "sum_close_pct": checked[:, :, target].sum().item(),
                "nulls_f001": int(checked[:, :, feature].isnan().sum()),
            }
        ),
        flush=True,
    )
    # Workers are in the middle of a query that nobody waits for.
    os._exit(0)


if __name__ == "__main__":
    main()
