//! A run as a picture: a lane for each node, time to the right, one SVG file without anything from
//! elsewhere.

use std::fmt::Write;

use crate::{
    liar::JUNK,
    run::Report,
    timeline::{Line, Phase, Timeline},
};

/// More lanes than this cannot be told apart; the first ones are drawn.
const LANES_MAX: usize = 60;
/// Lines between lanes are drawn up to so many nodes.
const LINE_LANES_MAX: usize = 16;
const LANE_HEIGHT: f64 = 18.0;
const LEFT: f64 = 96.0;
const TOP: f64 = 118.0;
const PLOT_WIDTH: f64 = 1_180.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 34.0;
/// About so many marks on the time axis.
const AXIS_MARKS: i64 = 10;
/// Milestones' texts have so many rows above the lanes; where all are taken, the line alone stands.
const TEXT_ROWS: usize = 4;
/// About how wide a letter is.
const LETTER: f64 = 6.0;
const TEXT_ROW_HEIGHT: f64 = 12.0;

/// Colours that both a light and a dark background bear.
fn colour(phase: Phase) -> &'static str {
    match phase {
        Phase::Upkeep => "#9aa0a6",
        Phase::Election => "#8e6bbf",
        Phase::Board => "#4c8dd6",
        Phase::Propose => "#2aa198",
        Phase::Critique => "#c99a00",
        Phase::Vote => "#d96a2b",
        Phase::Certify => "#c2457a",
        Phase::Work => "#5a9e3d",
    }
}

const STYLE: &str = "\
text{font:11px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}\
.faint{fill:#777}.lane{stroke:#ddd}.axis{stroke:#bbb}.liar{fill:#c62828;font-weight:600}\
.down{fill:#000;fill-opacity:.12}.cut{fill:#c62828;fill-opacity:.07}.page{fill:#fff}\
.mile{stroke:#555;stroke-dasharray:3 3}.lost{stroke-dasharray:2 3}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.faint{fill:#999}.lane{stroke:#3a3a3a}\
.axis{stroke:#555}.liar{fill:#ff8a80}.down{fill:#fff;fill-opacity:.16}\
.cut{fill:#ff8a80;fill-opacity:.1}.page{fill:#1b1b1d}.mile{stroke:#aaa}}";

struct Canvas<'a> {
    timeline: &'a Timeline,
    lanes: usize,
    span_ms: f64,
    out: String,
}

/// Draws a run that was made with `Setup::picture`; nothing otherwise.
pub fn picture(report: &Report) -> Option<String> {
    let timeline = report.timeline.as_ref()?;
    let mut canvas = Canvas {
        timeline,
        lanes: report.setup.nodes.min(LANES_MAX),
        span_ms: span_ms(timeline),
        out: String::new(),
    };
    canvas.draw(report).expect("writing to a text cannot fail");
    Some(canvas.out)
}

/// Until everything of interest is over, and a little longer.
fn span_ms(timeline: &Timeline) -> f64 {
    let bars = timeline.bars.iter().map(|bar| bar.until_ms);
    let miles = timeline.milestones.iter().map(|mile| mile.at_ms);
    let downs = timeline.downs.iter().filter_map(|(_, _, until)| *until);
    let cuts = timeline.cuts.iter().map(|(_, until)| *until);
    let last_ms = bars.chain(miles).chain(downs).chain(cuts).max().unwrap_or(timeline.end_ms);
    (last_ms.max(1) as f64 * 1.05).min(timeline.end_ms.max(1) as f64)
}

impl Canvas<'_> {
    fn x(&self, ms: i64) -> f64 {
        LEFT + ms.max(0) as f64 / self.span_ms * PLOT_WIDTH
    }

    fn y(&self, node: usize) -> f64 {
        TOP + (node as f64 + 0.5) * LANE_HEIGHT
    }

    fn bottom(&self) -> f64 {
        TOP + self.lanes as f64 * LANE_HEIGHT
    }

    fn draw(&mut self, report: &Report) -> std::fmt::Result {
        let (width, height) = (LEFT + PLOT_WIDTH + RIGHT, self.bottom() + BOTTOM);
        writeln!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\"><style>{STYLE}</style>\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>"
        )?;
        self.title(report)?;
        self.legend()?;
        self.axis()?;
        self.lanes()?;
        self.shades()?;
        if report.setup.nodes <= LINE_LANES_MAX {
            self.lines()?;
        }
        self.bars()?;
        self.milestones()?;
        writeln!(self.out, "</svg>")
    }

    fn title(&mut self, report: &Report) -> std::fmt::Result {
        let liars = report.liars.iter().filter(|lies| !lies.is_empty()).count();
        let setup = &report.setup;
        writeln!(
            self.out,
            "<title>Swarm of {0} nodes, seed {1}</title><text class=\"title\" x=\"12\" y=\"22\">\
             {0} nodes, {liars} of them liars, {2} tasks, {3} % loss</text>\
             <text class=\"faint\" x=\"12\" y=\"38\">{4} · {5} messages · trace {6}</text>",
            setup.nodes,
            setup.seed,
            setup.tasks,
            setup.loss.to_f64() * 100.0,
            setup.command(),
            report.counts.messages,
            report.trace_hash
        )
    }

    fn legend(&mut self) -> std::fmt::Result {
        let mut x = 12.0;
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Upkeep) {
            let name = phase.name();
            writeln!(
                self.out,
                "<rect x=\"{x}\" y=\"48\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"57\">{name}</text>",
                colour(phase),
                x + 14.0
            )?;
            x += 30.0 + name.len() as f64 * 6.2;
        }
        for (class, name) in [("down", "node is down"), ("cut", "network is cut")] {
            writeln!(
                self.out,
                "<rect class=\"{class}\" x=\"{x}\" y=\"48\" width=\"10\" height=\"10\"/>\
                 <text x=\"{}\" y=\"57\">{name}</text>",
                x + 14.0
            )?;
            x += 30.0 + name.len() as f64 * 6.2;
        }
        writeln!(self.out, "<text class=\"liar\" x=\"{x}\" y=\"57\">liar</text>")
    }

    fn axis(&mut self) -> std::fmt::Result {
        let step_ms = axis_step(self.span_ms as i64);
        let bottom = self.bottom();
        let mut at_ms = 0;
        while at_ms as f64 <= self.span_ms {
            let x = self.x(at_ms);
            writeln!(
                self.out,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"faint\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{} s</text>",
                bottom + 5.0,
                bottom + 18.0,
                at_ms / 1000
            )?;
            at_ms += step_ms;
        }
        Ok(())
    }

    fn lanes(&mut self) -> std::fmt::Result {
        for node in 0..self.lanes {
            let y = self.y(node);
            let is_liar = self.timeline.liars.get(node).copied().unwrap_or(false);
            let (class, name) = if is_liar { ("liar", "liar") } else { ("faint", "node") };
            writeln!(
                self.out,
                "<line class=\"lane\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
                 <text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{name} {node}\
                 </text>",
                LEFT + PLOT_WIDTH,
                LEFT - 8.0,
                y + 4.0
            )?;
        }
        Ok(())
    }

    fn shades(&mut self) -> std::fmt::Result {
        let height = self.bottom() - TOP;
        for &(from_ms, until_ms) in &self.timeline.cuts {
            let x = self.x(from_ms);
            let width = (self.x(until_ms) - x).max(1.0);
            writeln!(
                self.out,
                "<rect class=\"cut\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" \
                 height=\"{height}\"/>"
            )?;
        }
        for &(node, from_ms, until_ms) in &self.timeline.downs {
            if node < self.lanes {
                let x = self.x(from_ms);
                let until_ms = until_ms.unwrap_or(self.span_ms as i64);
                let width = (self.x(until_ms) - x).max(1.0);
                let y = self.y(node) - LANE_HEIGHT / 2.0 + 1.0;
                writeln!(
                    self.out,
                    "<rect class=\"down\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                     height=\"{}\"/>",
                    LANE_HEIGHT - 2.0
                )?;
            }
        }
        Ok(())
    }

    fn lines(&mut self) -> std::fmt::Result {
        let lanes = self.lanes;
        let span_ms = self.span_ms as i64;
        let drawn = |line: &&Line| line.from < lanes && line.to < lanes && line.sent_ms <= span_ms;
        for line in self.timeline.lines.iter().filter(drawn) {
            // A lost message ends half way.
            let (x1, y1) = (self.x(line.sent_ms), self.y(line.from));
            let (x2, y2) = match line.arrived_ms {
                Some(at_ms) => (self.x(at_ms), self.y(line.to)),
                None => (x1, (y1 + self.y(line.to)) / 2.0),
            };
            let class = if line.arrived_ms.is_none() { " class=\"lost\"" } else { "" };
            writeln!(
                self.out,
                "<line{class} x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
                 stroke=\"{}\" stroke-opacity=\".3\" stroke-width=\".6\"/>",
                colour(line.phase)
            )?;
        }
        Ok(())
    }

    fn bars(&mut self) -> std::fmt::Result {
        let (lanes, span_ms) = (self.lanes, self.span_ms as i64);
        for bar in self.timeline.bars.iter().filter(|bar| bar.node < lanes) {
            let x = self.x(bar.from_ms);
            let width = (self.x(bar.until_ms) - x).max(1.0);
            writeln!(
                self.out,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"8\" rx=\"2\" \
                 fill=\"{}\" fill-opacity=\".75\"/>",
                self.y(bar.node) - 4.0,
                colour(bar.phase)
            )?;
        }
        for point in
            self.timeline.points.iter().filter(|point| point.node < lanes && point.at_ms <= span_ms)
        {
            writeln!(
                self.out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\" fill=\"{}\"/>",
                self.x(point.at_ms),
                self.y(point.node),
                colour(point.phase)
            )?;
        }
        Ok(())
    }

    fn milestones(&mut self) -> std::fmt::Result {
        let bottom = self.bottom();
        // Parts of tasks have their own; those of whole tasks are enough.
        let whole = |what: &str| !what.contains('/') && !what.contains("-st-");
        let shown = self.timeline.milestones.iter().filter(|mile| whole(&mile.what));
        // How far each row is taken.
        let mut rows = [0.0; TEXT_ROWS];
        for mile in shown {
            let (x, width) = (self.x(mile.at_ms), mile.what.chars().count() as f64 * LETTER);
            let is_late = x > LEFT + PLOT_WIDTH * 0.85;
            let (anchor, from) = if is_late { ("end", x - width) } else { ("start", x) };
            let what = escape(&mile.what);
            let free = rows.iter().position(|end| *end <= from).filter(|_| !is_junk(&mile.what));
            let y = TOP - 4.0 - free.unwrap_or_default() as f64 * TEXT_ROW_HEIGHT;
            writeln!(
                self.out,
                "<line class=\"mile\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\">\
                 <title>{what}</title></line>",
                y + 2.0,
            )?;
            if let Some(row) = free {
                rows[row] = from + width + LETTER;
                writeln!(
                    self.out,
                    "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{what}</text>"
                )?;
            }
        }
        Ok(())
    }
}

/// What liars have ordered is told by whoever points at its line.
fn is_junk(what: &str) -> bool {
    what.starts_with(JUNK)
}

/// A round number of seconds between two marks.
fn axis_step(span_ms: i64) -> i64 {
    const ROUND_S: [i64; 10] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
    let wanted_ms = span_ms / AXIS_MARKS;
    let step_s = ROUND_S.into_iter().find(|step_s| step_s * 1000 >= wanted_ms);
    step_s.unwrap_or(1_200) * 1000
}

/// Task ids come from clients.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
