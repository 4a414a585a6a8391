# SPDX-License-Identifier: BSD-2-Clause
"""The slope of a series of points, and how far it can be believed.

The slope is Theil-Sen's (the median of the slopes of all pairs of points, which no single jump can
bend) over the medians of BINS stretches of time. Its spread is where 90 % of the slopes lie that
the same fit gives when the residuals, in blocks of neighbours, are dealt out anew: neighbours in
time are alike, so each of them is not a witness of its own."""
import random
import statistics

BINS = 48
BLOCK = 4  # bins that are dealt out together
DEALS = 400


def theil_sen(points):
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1:]]
    return statistics.median(slopes) if slopes else 0.0


def fit(points):
    """(slope a second, its 5 % and 95 %, the noise about the line)"""
    size = max(1, len(points) // BINS)
    bins = [(statistics.mean(p[0] for p in points[i:i + size]),
             statistics.median(p[1] for p in points[i:i + size]))
            for i in range(0, len(points) - size + 1, size)]
    slope = theil_sen(bins)
    at = statistics.median(y - slope * x for x, y in bins)
    rest = [y - slope * x - at for x, y in bins]
    deal, dealt = random.Random(1), []
    blocks = max(1, len(rest) - BLOCK + 1)
    for _ in range(DEALS if len(rest) > 2 * BLOCK and any(rest) else 0):
        noise = []
        while len(noise) < len(rest):
            first = deal.randrange(blocks)
            noise += rest[first:first + BLOCK]
        dealt.append(theil_sen([(x, slope * x + n) for (x, _), n in zip(bins, noise)]))
    dealt.sort()
    low, high = (dealt[len(dealt) // 20], dealt[-1 - len(dealt) // 20]) if dealt else (slope, slope)
    noise = 1.4826 * statistics.median(abs(y - slope * x - at) for x, y in points)
    return slope, low, high, noise
