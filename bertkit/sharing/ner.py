"""Cards of token classification."""

from __future__ import annotations

from bertkit.sharing.kinds import Shared, shared
from bertkit.tasks.ner.task import NerTask


class SharedNer(Shared):
    def window_note(self) -> str:
        data = self.task.data
        return (
            f"Sentences of any length: windows of {data.max_seq_length} tokens that share {data.overlap}; each word is "
            "labelled in one of them."
        )


@shared.register
def _(task: NerTask) -> Shared:
    return SharedNer(task)
