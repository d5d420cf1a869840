# SPDX-License-Identifier: MIT
"""What a soak did and what became of its memory: report.json, report.md and memory.svg in one folder."""

import json
import os

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 420, 70, 40, 210, 50
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#16817a", "#7f8c8d", "#34495e")


def picture(samples):
    """samples: {name: [(seconds, KiB)]}. Resident memory over time."""
    last = max([at for row in samples.values() for at, _ in row] + [1.0])
    most = max([size for row in samples.values() for _, size in row] + [1]) / 1024 * 1.1
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(seconds):
        return LEFT + wide * seconds / last

    def y(mebibytes):
        return TOP + high * (1 - mebibytes / most)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">' % (WIDTH, HEIGHT),
           '<rect width="%d" height="%d" fill="#ffffff"/>' % (WIDTH, HEIGHT),
           '<text x="%d" y="22" font-size="16">Resident memory, MiB</text>' % LEFT]
    for step in range(5):
        size, seconds = most * step / 4, last * step / 4
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>' % (LEFT, LEFT + wide, y(size), y(size)))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%.1f</text>' % (LEFT - 8, y(size) + 4, size))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%.0f s</text>' % (x(seconds), TOP + high + 22, seconds))
    for number, (name, row) in enumerate(sorted(samples.items())):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join("%.1f,%.1f" % (x(at), y(size / 1024)) for at, size in row)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>' % (points, colour))
        out.append('<text x="%d" y="%d" fill="%s">%s</text>' % (LEFT + wide + 12, TOP + 14 + 20 * number, colour, name))
    return "\n".join(out + ["</svg>", ""])


def growth(row):
    """KiB that a process had more in the last quarter of its life than in the second one, at the least."""
    if len(row) < 40:
        return 0
    quarter = len(row) // 4
    sizes = [size for _, size in row]
    return min(sizes[-quarter:]) - max(sizes[quarter:2 * quarter])


def write(folder, told, samples):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "report.json"), "w") as file:
        json.dump({**told, "memory_kib": samples}, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "memory.svg"), "w") as file:
        file.write(picture(samples))
    lines = ["# Soak", "", "%s, commit %s, seed %d, %.0f s" % (told["date"], told["commit"], told["seed"], told["seconds"]), "",
             "| operations | |", "|---|---:|"]
    lines += ["| %s | %s |" % (name, format(count, ",")) for name, count in told["operations"].items()]
    lines += ["", "| packets | |", "|---|---:|"]
    lines += ["| %s | %s |" % (name, format(count, ",")) for name, count in told["packets"].items()]
    lines += ["", "| process | MiB at the beginning | at the end |", "|---|---:|---:|"]
    lines += ["| %s | %.1f | %.1f |" % (name, row[0][1] / 1024, row[-1][1] / 1024) for name, row in sorted(samples.items()) if row]
    lines += ["", "![resident memory](memory.svg)", ""]
    lines += ["Wrong:"] + ["- " + line for line in told["failures"]] if told["failures"] else ["Nothing was wrong."]
    with open(os.path.join(folder, "report.md"), "w") as file:
        file.write("\n".join(lines) + "\n")
