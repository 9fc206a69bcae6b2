"""Loads of engines on servers of other parties: jobs of the main process, since compute nodes have no internet.

They are those of `generate` and `judge` in everything else. One at a time spends the study's budget.
"""

NO_LIMIT = 10**6  # minutes: no scheduler ends these jobs, whatever a profile says of others
HOSTED = {
    stage: execution_stage.batches(study, of_stage, elsewhere=True)
    for stage, of_stage in (("generate", study.generation_batches), ("judge", study.judging_batches))
}

if HOSTED["generate"]:

    use rule generate as generate_hosted with:
        wildcard_constraints:
            batch=any_of(HOSTED["generate"]),
        localrule: True
        threads: 1
        resources:
            hosted=1,
            mem_mb=1000,
            runtime=NO_LIMIT,


if HOSTED["judge"]:

    use rule judge as judge_hosted with:
        wildcard_constraints:
            batch=any_of(HOSTED["judge"]),
        localrule: True
        threads: 1
        resources:
            hosted=1,
            mem_mb=1000,
            runtime=NO_LIMIT,
