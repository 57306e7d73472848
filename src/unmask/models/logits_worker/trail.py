"""What has been asked for the canvas at hand: by asking it again, any process comes to remember the same."""

from __future__ import annotations

from unmask.models.logits_worker.protocol import Question


class Trail:
    """The questions of one request's canvas so far, each of which builds on the logits of the one before.

    Of whoever asked the last of them, it is said that he *holds* the trail.
    """

    __slots__ = ("__weakref__", "questions")

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def add(self, question: Question) -> None:
        """One more was answered; the first of a canvas makes the former canvas's past."""
        if not question.conditioned:
            self.questions.clear()
        self.questions.append(question)
