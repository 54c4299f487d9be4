// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package graph draws workflows as SVG: tasks from top to bottom, what is in a task inside its box, branches side by side. Touch it to
// change how a drawing looks.
package graph

import (
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/definition"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

// Lengths in pixels.
const (
	letter   = 7.0  // the width of a letter at 12 pixels, roughly
	line     = 18.0 // from a line of text to the next
	padding  = 12.0
	gap      = 30.0 // between a task and the next, with an arrow in it
	lane     = 14.0 // between two arrows that go past tasks
	minWidth = 110.0
	longest  = 40 // letters of a text
	terminal = 8.0
)

// SVG draws the document of a Workflow, given its spec as JSON.
func SVG(spec []byte) (string, error) {
	document, problems := definition.OfWorkflow(spec)
	if len(problems) > 0 {
		return "", fmt.Errorf("the document is not valid: %w", problems.ToAggregate())
	}
	return Draw(document), nil
}

// Draw draws a document.
func Draw(document *dsl.Workflow) string {
	p := painter{document}
	body := p.list("/do", "")
	body.shift(padding, 2*padding+2*terminal+gap/2)
	middle := body.in.x
	all := figure{w: body.w + 2*padding, h: body.h + 4*padding + 4*terminal + gap}
	all.circle(point{middle, padding + terminal}, "start")
	all.arrow("flow", "", point{middle, padding + 2*terminal}, body.in)
	all.take(body)
	last := point{middle, all.h - padding - terminal}
	if body.flows {
		all.arrow("flow", "", body.out, point{last.x, last.y - terminal})
	}
	all.circle(last, "end")
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" `,
		all.w, all.h, all.w, all.h)
	b.WriteString(`font-family="sans-serif" font-size="12">`)
	b.WriteString("\n<title>" + escape(document.Name+" "+document.Version) + "</title>\n" + style)
	for _, e := range all.elements {
		b.WriteString(e.svg() + "\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

const style = `<style>
.task { fill: #eef4ff; stroke: #3367d6 } .group { fill: none; stroke: #7a8aa0 } .catch { fill: none; stroke: #c5221f; stroke-dasharray: 4 3 }
.flow { fill: none; stroke: #333 } .jump { fill: none; stroke: #b06000 } .note { fill: #555 } .start, .end { fill: #333 }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>
`

type point struct{ x, y float64 }

// element is a thing that is drawn: a rectangle, a circle, a text or an arrow, by what is set.
type element struct {
	class  string
	at     point
	w, h   float64
	r      float64
	text   string
	points []point
}

func (e *element) svg() string {
	switch {
	case len(e.points) > 0:
		steps := make([]string, len(e.points))
		for i, p := range e.points {
			steps[i] = fmt.Sprintf("%.1f %.1f", p.x, p.y)
		}
		return fmt.Sprintf(`<path class="%s" d="M%s" marker-end="url(#tip)"/>`, e.class, strings.Join(steps, " L"))
	case e.r > 0:
		return fmt.Sprintf(`<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"/>`, e.class, e.at.x, e.at.y, e.r)
	case e.w > 0:
		return fmt.Sprintf(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="5"/>`, e.class, e.at.x, e.at.y, e.w, e.h)
	}
	return fmt.Sprintf(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, e.class, e.at.x, e.at.y, escape(e.text))
}

// figure is something drawn, with the points at which the flow comes in and goes out.
type figure struct {
	w, h     float64
	in, out  point
	flows    bool // whether the flow goes out at all
	elements []*element
}

func (f *figure) shift(dx, dy float64) {
	move := func(p *point) { p.x, p.y = p.x+dx, p.y+dy }
	move(&f.in)
	move(&f.out)
	for _, e := range f.elements {
		move(&e.at)
		for i := range e.points {
			move(&e.points[i])
		}
	}
}

// take adds what is in another figure, as it stands there.
func (f *figure) take(other figure) { f.elements = append(f.elements, other.elements...) }

func (f *figure) rect(class string, at point, w, h float64) {
	f.elements = append(f.elements, &element{class: class, at: at, w: w, h: h})
}

func (f *figure) circle(at point, class string) {
	f.elements = append(f.elements, &element{class: class, at: at, r: terminal})
}

func (f *figure) write(class string, at point, text string) {
	f.elements = append(f.elements, &element{class: class, at: at, text: text})
}

// arrow draws an arrow through points, with a text at the second of them.
func (f *figure) arrow(class, text string, points ...point) {
	f.elements = append(f.elements, &element{class: class, points: points})
	if text != "" {
		f.write("note", point{points[1].x + 3, points[1].y - 3}, text)
	}
}

// painter draws the parts of a document.
type painter struct{ document *dsl.Workflow }

// jump is an arrow that does not go to the next task; its end is below all of a list.
type jump struct {
	from, to int
	text     string
}

// list draws tasks from top to bottom, with a heading. Arrows that go past tasks have lanes at the right.
func (p painter) list(reference, heading string) figure {
	tasks := p.document.Lists[reference]
	var f figure
	figures := make([]figure, len(tasks))
	for i, t := range tasks {
		figures[i] = p.task(t)
		f.w = max(f.w, figures[i].w)
	}
	y := 0.0
	if heading != "" {
		f.w = max(f.w, width(heading))
		f.write("note", point{0, line - 4}, short(heading))
		y = line
	}
	middle := f.w / 2
	f.in, f.flows = point{middle, y}, true
	var jumps []jump
	for i := range figures {
		figures[i].shift(middle-figures[i].w/2, y)
		f.take(figures[i])
		y += figures[i].h + gap
		next, more := p.leaves(tasks, i)
		jumps = append(jumps, more...)
		if f.flows = next && figures[i].flows; f.flows && i+1 < len(tasks) {
			f.arrow("flow", "", figures[i].out, point{middle, y})
		}
	}
	if len(tasks) > 0 {
		y -= gap
	}
	f.h = y
	f.out = point{middle, y}
	if len(jumps) > 0 {
		f.jumps(figures, jumps)
	}
	return f
}

// leaves returns whether the flow goes from a task to the next one, and where else.
func (p painter) leaves(tasks []*dsl.Task, i int) (next bool, jumps []jump) {
	to := func(directive, text string) {
		switch directive {
		case "", dsl.Continue:
			next = true
			return
		case dsl.Exit, dsl.End:
			jumps = append(jumps, jump{i, len(tasks), strings.TrimSpace(text + " " + directive)})
			return
		}
		for j, t := range tasks {
			if t.Name != directive {
				continue
			}
			if j == i+1 && text == "" {
				next = true
				return
			}
			jumps = append(jumps, jump{i, j, text})
		}
	}
	otherwise := tasks[i].Kind == dsl.KindSwitch
	for _, c := range tasks[i].Switch {
		to(c.Then, c.Name)
		otherwise = otherwise && c.When != ""
	}
	if tasks[i].Kind == dsl.KindRaise {
		return false, nil
	}
	if tasks[i].Kind != dsl.KindSwitch || otherwise {
		to(tasks[i].Then, "")
	}
	return next, jumps
}

// jumps draws arrows past tasks.
func (f *figure) jumps(figures []figure, jumps []jump) {
	x := f.w
	for n, j := range jumps {
		from := figures[j.from]
		start := point{from.in.x + from.w/2, from.out.y - 8 - 4*float64(n%3)}
		x += lane
		end := point{f.out.x, f.h + padding}
		if j.to < len(figures) {
			to := figures[j.to]
			end = point{to.in.x + to.w/2, to.in.y + 10}
		}
		f.arrow("jump", short(j.text), start, point{x, start.y}, point{x, end.y}, end)
		f.w = max(f.w, x+3+letter*float64(utf8.RuneCountInString(short(j.text))))
	}
	f.w += padding / 2
	f.h += padding
	f.out.y = f.h
}

// task draws a task: a box with its name and what it does, and what is in it.
func (p painter) task(t *dsl.Task) figure {
	title, note := short(t.Name), short(Describe(t))
	var inner []figure
	switch t.Kind {
	case dsl.KindDo:
		inner = []figure{p.list(t.Do, "")}
	case dsl.KindFor:
		inner = []figure{p.list(t.For.Do, "")}
	case dsl.KindTry:
		inner = []figure{p.list(t.Try.Do, "")}
		if t.Try.Catch != "" {
			inner = append(inner, p.list(t.Try.Catch, "catch"))
		}
	case dsl.KindListen:
		if t.Listen.Each != nil && t.Listen.Each.Do != "" {
			inner = []figure{p.list(t.Listen.Each.Do, "for each event")}
		}
	case dsl.KindFork:
		for _, branch := range p.document.Lists[t.Fork.Branches] {
			inner = append(inner, p.task(branch))
		}
	}
	f := figure{w: max(minWidth, width(title), width(note)), h: 2*line + padding, flows: true}
	class := "task"
	if len(inner) > 0 {
		class = "group"
		x, tallest := padding, 0.0
		for i := range inner {
			inner[i].shift(x, f.h)
			if t.Kind == dsl.KindTry && i == 1 {
				f.rect("catch", point{x - padding/3, f.h}, inner[i].w+padding/1.5, inner[i].h+padding/3)
			}
			x += inner[i].w + padding
			tallest = max(tallest, inner[i].h)
			f.take(inner[i])
		}
		f.w, f.h = max(f.w, x), f.h+tallest+padding
	}
	f.elements = append([]*element{{class: class, w: f.w, h: f.h}}, f.elements...)
	f.write("name", point{padding, line}, title)
	f.write("note", point{padding, 2 * line}, note)
	f.in, f.out = point{f.w / 2, 0}, point{f.w / 2, f.h}
	return f
}

// Describe says in a few words what a task does.
func Describe(t *dsl.Task) string {
	text := string(t.Kind)
	switch t.Kind {
	case dsl.KindCall:
		text += " " + t.Call.Function
	case dsl.KindFor:
		text += " " + t.For.Each + " in " + t.For.In
	case dsl.KindFork:
		if t.Fork.Compete {
			text += ", the first decides"
		}
	case dsl.KindTry:
		if t.Try.Retry != nil {
			text += ", retry"
		}
	case dsl.KindWait:
		if s, ok := t.Wait.(string); ok {
			text += " " + s
		} else if d, err := dsl.ParseDuration(t.Wait); err == nil {
			text += " " + d.String()
		}
	case dsl.KindEmit:
		text += fmt.Sprintf(" %v", t.Emit["type"])
	case dsl.KindRaise:
		text += fmt.Sprintf(" %v", t.Raise["status"])
	case dsl.KindRun:
		if t.Run.Workflow != nil {
			text += fmt.Sprintf(" workflow %v", t.Run.Workflow["name"])
		} else {
			text += fmt.Sprintf(" %v", t.Run.Container["image"])
		}
	}
	if t.If != "" {
		text += " if " + t.If
	}
	return text
}

func short(text string) string {
	if utf8.RuneCountInString(text) > longest {
		return string([]rune(text)[:longest-1]) + "…"
	}
	return text
}

func width(text string) float64 {
	return letter*float64(utf8.RuneCountInString(short(text))) + 2*padding
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
