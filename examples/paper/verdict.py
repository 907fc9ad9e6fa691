"""Whether the ordering of the paper is there, in words."""

SENTENCES = {
    "all": "all test sentences",
    "known": "the sentences without unknown words",
}
# A difference that chance makes less often than that is taken for one.
LEVEL = 0.05


def ordering(found):
    """Sentences on who is above whom, and one on what that makes together.

    Args:
        found: What `findings.find` returned.

    Returns:
        List of strings, the conclusion first.
    """
    under_a_limit = [one for one in found["comparisons"] if one["same_length"]]
    lines = [_comparison(one) for one in under_a_limit]
    lines += [_comparison(one) for one in _across(found["comparisons"])]
    return [_conclusion(under_a_limit), *lines]


def falling(found):
    """A sentence for each system: what long sentences cost it."""
    groups = found["buckets"]
    if len(groups) < 2:
        return ["The test sentences are too few to tell long from short ones."]
    short, long = (
        f"{group['first']} to {group['last']}" for group in (groups[0], groups[-1])
    )
    return [
        f"{one['name']}: {one['by_length'][0]:.1f} BLEU on sentences of {short} words "
        f"and {one['by_length'][-1]:.1f} on those of {long} ({one['slope']:+.1f})."
        for one in found["systems"]
    ]


def _across(comparisons):
    """The paper's strongest case: attention on short sentences against none on long.

    Systems are sorted by their limit: it is the first system and the last baseline.
    """
    rows = [one for one in comparisons if one["sentences"] == "all"]
    if not rows:
        return []
    last = rows[-1]["baseline"]
    first = next(one for one in rows if one["baseline"] == last)
    return [] if first["same_length"] else [first]


def _comparison(one):
    baseline, system = one["scores"]
    difference = system - baseline
    both = (
        f"{system:.2f} ± {one['intervals'][1]:.2f} and "
        f"{baseline:.2f} ± {one['intervals'][0]:.2f}"
    )
    if not difference:
        return (
            f"{one['system']} and {one['baseline']} are level on "
            f"{SENTENCES[one['sentences']]}: {both}."
        )
    return (
        f"{one['system']} is {abs(difference):.2f} BLEU "
        f"{'above' if difference > 0 else 'below'} {one['baseline']} on "
        f"{SENTENCES[one['sentences']]}: {both}, p = {one['p_value']:.3f}."
    )


def _conclusion(comparisons):
    if not comparisons:
        return "No two systems of one limit are finished, so there is no ordering yet."
    against = [
        f"{one['system']} on {SENTENCES[one['sentences']]}"
        for one in comparisons
        if not (one["scores"][1] > one["scores"][0] and one["p_value"] < LEVEL)
    ]
    if against:
        return (
            "The paper's ordering, RNNsearch above RNNencdec under each limit, does "
            f"not appear with p < {LEVEL} for {', '.join(against)}."
        )
    return (
        "The paper's ordering appears: RNNsearch is above RNNencdec under each limit, "
        f"each time with p < {LEVEL}."
    )
