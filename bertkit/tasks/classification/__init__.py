"""Classification and regression of one text or a pair."""
