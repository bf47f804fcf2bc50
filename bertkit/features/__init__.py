"""Features around a run. Each folder is one, and can be deleted: nothing imports a feature by name.

A feature owns its functions, its command, what it knows of each kind of task, its templates and what it does at the end
of a run. It may import all of the core. Its ``__init__.py`` imports nothing and says in constants what it adds;
`bertkit.runtime.features` walks the folders. The smallest feature with all of them is ``reporting``::

    PUBLIC = {"report": "report:report"}                   # `bertkit.report` is `report` in report.py
    COMMANDS = {"report": ("Look at the results", "runs")} # `bertkit report`: panel of the help, command before it
    LISTENERS = ("listener:ReportListener",)               # what it does around a run

To add one, ``bertkit quickstart`` for example, whose folder is ``tour``:

1. ``features/tour/__init__.py`` with the constants, and a docstring that names its page, if it has one.
2. ``features/tour/quickstart.py`` with the function, public and typed.
3. ``features/tour/command.py``: ``app = new_app()`` of `bertkit.cli.groups`, and the command, which parses options,
   calls the function as ``bertkit.quickstart`` and prints.
4. ``tests/features/tour/``; and ``docs/guides/`` for its page.

More constants: ``OPTIONS``, options for commands of the core (`bertkit.cli.groups.OptionsOfFeature`); ``NEEDS``, the
name of a feature without which this one adds nothing; ``PUBLIC_WITH``, public names that need another feature.

What a feature knows of a kind of task is in the module with that name, such as ``reporting/ner.py``, and is found by
the class of the task (`bertkit.tasks.registry.by_kind_of_task`). What it knows of another feature is in the module with
that name, such as ``serving/explain.py``, imported where that is there (`bertkit.runtime.features.module_about`).

To delete one: remove its folder, ``tests/features/NAME`` and its page. `tests/test_removal.py` does it for each.
"""
