"""Listeners that write the model card of a finished run, and push the run to the Hub."""

from __future__ import annotations

from dataclasses import replace

from bertkit.recipe.load import Recipe
from bertkit.runtime.files import write_whole
from bertkit.runtime.progress import say
from bertkit.training.runs.listeners import EndOfRun, Listener


class CardListener(Listener):
    """Writes ``README.md``, and the files by which other libraries load a checkpoint."""

    place = 20  # the card shows parts of the report
    leaves = "model card"

    def on_end(self, end: EndOfRun) -> None:
        from bertkit.features.sharing.card_facts import CardReport, card_of
        from bertkit.features.sharing.kinds import write_files_of_others
        from bertkit.features.sharing.model_card import model_card, recorded_card

        write_files_of_others(end.task, end.config, end.folder)
        card = card_of(end)
        if "report" in end.for_later:
            card = replace(card, report=CardReport(**end.for_later["report"]))
        end.write_record(**recorded_card(card))
        write_whole(end.folder / "README.md", model_card(card))


class PushListener(Listener):
    """Pushes the complete run to the Hub."""

    place = 40  # what all others leave is pushed
    takes = ("push_to_hub",)
    is_asked = True

    @classmethod
    def wants(cls, recipe: Recipe, push_to_hub: str | None) -> bool:
        return push_to_hub is not None

    def check(self) -> None:
        """Checks that the user is logged in; HubError if not, and RecipeError if no repository can have the name."""
        from bertkit.features.sharing.push import check_login

        check_login(str(self.push_to_hub))

    def on_end(self, end: EndOfRun) -> None:
        from bertkit.features.sharing.push import push_finished_run

        say(str(push_finished_run(end.folder, str(self.push_to_hub), end.recipe.hub)))
