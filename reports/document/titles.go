package document

// This file prepares a document for a page: tables get titles, and terms their explanations.

import (
	"cmp"
	"fmt"
	"slices"
)

// titles names the tables of a document.
type titles map[string]int

// entitled returns the sections with a title for every table that has none: that of the heading, details or section
// that it is in. A title that is used again gets a number.
func entitled(sections []Section) []Section {
	used := titles{}
	sections = slices.Clone(sections)
	title := "Summary"
	for i, section := range sections {
		title = cmp.Or(section.Title, title)
		sections[i].Blocks = used.entitle(title, section.Blocks)
	}
	return sections
}

func (used titles) entitle(title string, blocks []Block) []Block {
	blocks = slices.Clone(blocks)
	for i, block := range blocks {
		switch block := block.(type) {
		case Heading:
			title = string(block)
		case Details:
			block.Blocks = used.entitle(cmp.Or(block.Title, title), block.Blocks)
			blocks[i] = block
		case Table:
			block.Title = cmp.Or(block.Title, title)
			if used[block.Title]++; used[block.Title] > 1 {
				block.Title = fmt.Sprintf("%s (%d)", block.Title, used[block.Title])
			}
			blocks[i] = block
		}
	}
	return blocks
}

// helps returns the explained columns or keys of a block, each with its explanation.
func helps(block Block) []KeyValue {
	var out []KeyValue
	add := func(term, help string) {
		if help != "" {
			out = append(out, KeyValue{Key: term, Value: Plain(help)})
		}
	}
	switch block := block.(type) {
	case Table:
		for _, column := range block.Columns {
			add(column.Title, column.Help)
		}
	case KeyValues:
		for _, item := range block.Items {
			add(item.Key, item.Help)
		}
	}
	return out
}
