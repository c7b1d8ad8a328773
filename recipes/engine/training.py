"""Training of a recipe's `Task`, by a `Session`."""

from recipes.engine.lora import adapt, merge


def train(task, session):
    """Trains a task, or goes on; then scores and exports it. `session` opens a `Session` for settings."""
    config = task.config
    if getattr(config, "model_arguments", None):  # recipes of one's own may have none
        task.try_model()
    with session(config) as run:
        task.run = run
        task.check()
        task.make_optimizer(1, 1)  # a mistake in its settings is reported before data are read
        run.read(lambda: _load(task), lambda data: task.fingerprint())
        run.once(task.prepare)
        if run.is_unfinished():
            _fit(task, run)
        run.report(lambda model: task.evaluate(model, task.data.tests))
        run.export(task.export)
        run.close(task.next_commands())


def _load(task):
    task.load()
    return task.data


def _fit(task, run):
    batches, validation = task.make_batches(run.num_replicas)
    steps = len(batches)
    run.fit(
        batches,
        validation,
        lambda: first_model(task, run),
        optimizer=lambda model: task.make_optimizer(steps, run.num_replicas),
        loss=task.make_loss(),
        metrics=task.make_metrics,
        trainer=task.make_trainer,
        throughput=task.throughput(batches),
        scores=task.scores,
        reports=lambda model: task.reports(model, batches),
        shown=lambda model: task.shown(model, batches, validation),
        details=task.details,
        jit_compile=task.uses_xla(),
        warmup=task.warmup(steps),
        merge=lambda model: merge(model, task.config),
        flops=task.flops,
    )


def first_model(task, run):
    """Returns the model that training begins with; of a resumed run, before its weights are restored."""
    model = run.load_pruned()
    if model is None:
        model = task.make_model()
        if not run.has_checkpoint():
            task.begin(model)
    adapt(task.adapted(model), task.config)
    return model
