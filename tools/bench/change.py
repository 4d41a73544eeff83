"""The change of one figure between two builds that were measured in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from tools.bench.row import Figure

BEFORE, AFTER = "before", "after"
HEADING = "| row | figure | before | after | after / before | range | pairs |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Change:
    """One figure of a row, as pairs (before, after). Each of the two is the mean of the measurements in that pair."""

    row: str
    figure: Figure
    pairs: list[tuple[float, float]] = field(default_factory=list)

    def add(self, values: Mapping[str, Sequence[float]]) -> None:
        """Add the measurements of one pair, by build. They are left out if one build has none."""
        before, after = values.get(BEFORE), values.get(AFTER)
        if before and after:
            self.pairs.append((fmean(before), fmean(after)))

    def ratios(self) -> list[float]:
        """Return how many times the figure before the figure after is, for each pair whose figure before is not 0."""
        return [after / before for before, after in self.pairs if before]

    def markdown(self) -> str:
        """Return a line of the table: medians of both builds, then median and range of the ratios.

        At least one pair was added.
        """
        ratios, digits = self.ratios(), self.figure.digits
        cells = [f"{median(column):,.{digits}f}" for column in zip(*self.pairs, strict=True)]
        cells += [f"{median(ratios):.3f}", f"{min(ratios):.3f}-{max(ratios):.3f}"] if ratios else ["-", "-"]
        return "| " + " | ".join([self.row, self.figure.title, *cells, str(len(self.pairs))]) + " |"
