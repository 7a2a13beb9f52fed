"""Run a sweep on a SLURM cluster, from the login node:  python examples/sweep_slurm.py sweep.toml results

Every SLURM job is one Dask worker that runs one task at a time with CORES BLAS threads. Jobs are asked for while there is
work and given back when there is none. When this script is stopped or killed, run it again: the store knows what is done.
Needs `pip install 'onestride[cluster]' dask-jobqueue`.
"""

import os
import sys

from dask_jobqueue import SLURMCluster

import onestride as one
from onestride.sweeps.cluster import dask_executor

JOBS, CORES, MEMORY, TIME = 20, 4, "8GB", "04:00:00"  # `onestride sweep plan` says how much memory a worker needs
QUEUE = os.environ.get("SLURM_PARTITION")  # your partition, if it is not the default one


def main(sweep: str, store: str) -> None:
    """Start the jobs, run the sweep on them, print rows as they finish."""
    cluster = SLURMCluster(
        cores=CORES,
        processes=1,
        memory=MEMORY,
        walltime=TIME,
        queue=QUEUE,
        worker_extra_args=[
            "--nthreads",
            "1",
            "--lifetime",
            "230m",
            "--lifetime-stagger",
            "5m",
        ],  # end before SLURM does it
    )
    with cluster:
        cluster.adapt(minimum_jobs=1, maximum_jobs=JOBS)
        with dask_executor(cluster.scheduler_address, JOBS) as (executor, workers):
            for row in one.sweep(sweep, store, executor=executor, workers=workers, threads=CORES):
                p = row.problem
                told = f"{row.test_error:.4f}" if row.runs else f"failed: {row.failures[0]}"
                print(f"n {p.n}  d {p.d}  N {p.N}  α {p.step.exponent:g}  λ {p.ridge:g}  test error {told}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
