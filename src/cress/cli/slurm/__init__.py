"""The commands that ``cress slurm install`` writes: sbatch, srun, squeue and so on."""
