# SPDX-License-Identifier: MIT
"""Line charts as SVG: a few series over a few points, side by side. Readable on light and dark pages."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 44, 64
COLOURS = ("#1f6fb4", "#c8541a", "#2f8a4b", "#8a4ba8")


def _nice_top(value):
    """The next of 1, 2, 2.5, 5, 10 times a power of ten."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _number(value):
    return "{:,.10g}".format(value)


class Chart:
    """Points stand at even distances, whatever their values: they are powers of something."""

    def __init__(self, title, x_title, points):
        self.title, self.x_title, self.points = title, x_title, list(points)
        self.series = []

    def add(self, name, values):
        self.series.append((name, list(values)))

    def draw(self, x0):
        top = _nice_top(max(max(values) for _, values in self.series))
        plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def x(i):
            return x0 + LEFT + plot_width * (i + 0.5) / len(self.points)

        def y(value):
            return TOP + plot_height * (1 - value / top)
        out = ['<text class="title" x="%.1f" y="20">%s</text>' % (x0 + LEFT, escape(self.title))]
        for i in range(6):
            value = top * i / 5
            out.append('<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>' % (x0 + LEFT, y(value), x0 + WIDTH - RIGHT, y(value)))
            out.append('<text text-anchor="end" x="%.1f" y="%.1f">%s</text>' % (x0 + LEFT - 6, y(value) + 4, _number(value)))
        for i, point in enumerate(self.points):
            out.append('<text text-anchor="middle" x="%.1f" y="%d">%s</text>' % (x(i), HEIGHT - BOTTOM + 16, _number(point)))
        out.append('<text text-anchor="middle" x="%.1f" y="%d">%s</text>'
                   % (x0 + LEFT + plot_width / 2, HEIGHT - BOTTOM + 33, escape(self.x_title)))
        legend = x0 + LEFT
        for colour, (name, values) in zip(COLOURS, self.series):
            path = " ".join("%.1f,%.1f" % (x(i), y(value)) for i, value in enumerate(values))
            out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colour, path))
            out += ['<circle fill="%s" r="3" cx="%.1f" cy="%.1f"/>' % (colour, x(i), y(value)) for i, value in enumerate(values)]
            out.append('<line stroke="%s" stroke-width="2" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>'
                       % (colour, legend, HEIGHT - 14, legend + 18, HEIGHT - 14))
            out.append('<text x="%.1f" y="%d">%s</text>' % (legend + 23, HEIGHT - 10, escape(name)))
            legend += 38 + 7 * len(name)
        return out


def write(path, charts):
    width = WIDTH * len(charts)
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">' % (width, HEIGHT, width, HEIGHT),
             "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.grid{stroke:#999;stroke-width:.5}</style>",
             '<rect width="%d" height="%d" fill="#fff"/>' % (width, HEIGHT)]
    for i, chart in enumerate(charts):
        lines += chart.draw(WIDTH * i)
    with open(path, "w") as file:
        file.write("\n".join(lines + ["</svg>", ""]))
