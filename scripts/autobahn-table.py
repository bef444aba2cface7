"""Prints what came of a run of the Autobahn test suite as a table, one row for each group of cases."""

import collections
import json
import sys

GROUPS = {
    "1": "framing",
    "2": "Pings and Pongs",
    "3": "reserved bits",
    "4": "opcodes",
    "5": "fragmentation",
    "6": "UTF-8",
    "7": "closing",
    "9": "limits and performance",
    "10": "miscellaneous",
}
KINDS = ["OK", "NON-STRICT", "INFORMATIONAL", "FAILED"]


def kind(case):
    """The worst of what the case itself and its close came to."""
    both = {case["behavior"], case["behaviorClose"]}
    if both & {"FAILED", "WRONG CODE", "UNCLEAN", "FAILED BY CLIENT", "UNIMPLEMENTED"}:
        return "FAILED"
    return next((one for one in ["NON-STRICT", "INFORMATIONAL"] if one in both), "OK")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        (cases,) = json.load(file).values()
    counts = collections.defaultdict(collections.Counter)
    named = collections.defaultdict(list)
    for number, case in cases.items():
        counts[number.split(".")[0]][kind(case)] += 1
        named[kind(case)].append(number)
    print("| cases | what of | " + " | ".join(one.lower() for one in KINDS) + " |")
    print("| --- " * (len(KINDS) + 2) + "|")
    for group in sorted(counts, key=int):
        row = [counts[group][one] or "" for one in KINDS]
        print(f"| {group}.* | {GROUPS.get(group, '')} | " + " | ".join(map(str, row)) + " |")
    for one in KINDS[1:]:
        if named[one]:
            print(f"\n{one.lower()}: " + ", ".join(sorted(named[one], key=order)))
    sys.exit(1 if named["FAILED"] or not cases else 0)


def order(number):
    return [int(part) for part in number.split(".")]


main()
