"""Ways to choose the rows to label next: the sides of `next.py`.

Each is a function of the probabilities of the unlabelled rows (U, C), their vectors (U, D), those of the labelled rows
(L, D), how many rows to choose, and a seed; it returns the numbers of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bertkit.features.next.rows import margins, select_rows

Way = Callable[[np.ndarray, np.ndarray, np.ndarray, int, int], np.ndarray]
CLUSTERED = 5  # times as many of the most uncertain rows as are chosen, which are clustered


def at_random(
    probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int, seed: int
) -> np.ndarray:
    return np.random.default_rng(seed).permutation(len(vectors))[:number]


def unsure(probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int, seed: int) -> np.ndarray:
    """The lowest margins between the two most probable classes."""
    return np.argsort(margins(probabilities), kind="stable")[:number]


def distant(probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int, seed: int) -> np.ndarray:
    """One after the other the row that is farthest from all labelled and chosen ones (core set, Sener 2018)."""
    unit, known = of_length_one(vectors), of_length_one(labelled)
    nearest, chosen = (unit @ known.T).max(axis=1), []
    for _ in range(number):
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, unit @ unit[chosen[-1]])
        nearest[chosen] = 2
    return np.array(chosen)


def badge(probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int, seed: int) -> np.ndarray:
    """k-means++ of the gradients of the last layer, if the guess were the label (BADGE, Ash 2020)."""
    generator, unit = np.random.default_rng(seed), of_length_one(vectors)
    sides = probabilities.copy()
    sides[np.arange(len(sides)), sides.argmax(axis=1)] -= 1
    sizes = (sides**2).sum(axis=1)
    chosen, distances = [int(np.argmax(sizes))], np.full(len(unit), np.inf)
    while len(chosen) < number:
        last = chosen[-1]
        products = (sides @ sides[last]) * (unit @ unit[last])
        distances = np.minimum(distances, np.maximum(sizes + sizes[last] - 2 * products, 0))
        distances[chosen] = 0
        chosen.append(int(generator.choice(len(unit), p=distances / distances.sum())))
    return np.array(chosen)


def clusters(
    probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int, seed: int
) -> np.ndarray:
    """Of the most uncertain rows, clustered by k-means, the one nearest to each center."""
    from sklearn.cluster import KMeans

    order = np.argsort(margins(probabilities), kind="stable")
    unit = of_length_one(vectors)[order[: CLUSTERED * number]]
    found = KMeans(number, n_init=1, random_state=seed).fit(unit)
    distances = ((unit - found.cluster_centers_[found.labels_]) ** 2).sum(axis=1)
    parts = (np.flatnonzero(found.labels_ == each) for each in range(number))
    chosen = [int(order[part[np.argmin(distances[part])]]) for part in parts if len(part)]
    return np.array([*chosen, *(row for row in order.tolist() if row not in {*chosen})][:number])


def proposed(
    probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int, seed: int
) -> np.ndarray:
    """What `bertkit next` proposes."""
    return select_rows(probabilities, vectors, labelled, number)[0]


def of_length_one(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


WAYS: dict[str, Way] = {
    "random": at_random,
    "unsure": unsure,
    "distant": distant,
    "badge": badge,
    "clusters": clusters,
    "next": proposed,
}
