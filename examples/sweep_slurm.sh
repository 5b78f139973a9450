#!/bin/sh
# Runs a scenario as a Slurm array, one shard a task, and merges the parts when all tasks have ended:
#
#   array=$(sbatch --parsable --array=1-8 examples/sweep_slurm.sh my.toml results)
#   sbatch --dependency=afterok:"$array" examples/sweep_slurm.sh my.toml results
#
# The folder of results is on a file system that all nodes share. A task that is started again continues its shard. The merged
# files have the rows and the pictures of one `braidlab run`. $BRAIDLAB is the program; by default that on the PATH.
#SBATCH --cpus-per-task=4

set -eu

scenario=${1:?usage: sweep_slurm.sh SCENARIO.toml RESULTS}
results=${2:?usage: sweep_slurm.sh SCENARIO.toml RESULTS}
braidlab=${BRAIDLAB:-braidlab}

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    shard=$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT
    exec "$braidlab" run "$scenario" --shard "$shard" --threads "${SLURM_CPUS_PER_TASK:-1}" --out "$results"
fi
exec "$braidlab" merge "$scenario" --out "$results"
