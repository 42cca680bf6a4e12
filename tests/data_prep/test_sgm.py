"""Test sets in SGML and XML."""

from __future__ import annotations

import pytest
from sacrebleu.metrics import BLEU

from data_prep.sgm import (
    as_fairseq,
    as_reference,
    decode_entities,
    has_entity,
    pair_segments,
    read_segments,
)
from residual_fairseq.errors import UsageError


def segments(*lines, name="x.sgm"):
    return list(read_segments(lines, name))


def test_segments_are_read_with_their_places():
    found = segments(
        '<srcset setid="x">', '<doc docid="a">', "<hl>", '<seg id="1">One</seg>', "</hl>",
        '  <seg id="2"> Two <b> </seg>\r', '<DOC docid="b">', "<seg id=1></seg>", "</doc>",
    )  # fmt: skip
    assert found == [(4, 1, 1, "One"), (6, 1, 2, " Two <b> "), (8, 2, 1, "")]


@pytest.mark.parametrize(
    "line",
    [
        '<seg id="2">cut',
        '<seg id="2">',
        '<seg id="2">a</seg><seg id="3">b</seg>',
        "<seg>a</seg>",
        'before <seg id="2">a</seg>',
        '<seg id="2">a</seg> after',
    ],
)
def test_what_is_no_whole_segment_is_refused_with_its_line(line):
    with pytest.raises(UsageError, match="x.sgm, line 2: not one whole <seg"):
        segments('<seg id="1">a</seg>', line)


@pytest.mark.parametrize("number", [1, 2])
def test_segments_out_of_order_are_refused(number):
    with pytest.raises(UsageError, match=f"x.sgm, line 2: segment {number} comes after segment 2"):
        segments('<seg id="2">a</seg>', f'<seg id="{number}">b</seg>')


def test_a_segment_missing_on_one_side_is_refused_with_both_lines():
    source = segments('<seg id="1">a</seg>', '<seg id="2">b</seg>', '<seg id="3">c</seg>')
    target = segments('<seg id="1">A</seg>', "", '<seg id="3">C</seg>', '<seg id="4">D</seg>')
    with pytest.raises(UsageError, match="x, line 2: .* segment 2 where line 3 of y has .* 3"):
        pair_segments(source, target, ("x", "y"))


def test_a_segment_in_another_document_is_another():
    source = segments("<doc>", '<seg id="1">a</seg>', "<doc>", '<seg id="2">b</seg>')
    target = segments("<doc>", '<seg id="1">A</seg>', '<seg id="2">B</seg>')
    with pytest.raises(UsageError, match="document 2 has a segment 2 .* segment 2 of document 1"):
        pair_segments(source, target, ("x", "y"))


@pytest.mark.parametrize("counts", [(2, 1), (1, 2), (0, 0)])
def test_unequal_numbers_of_segments_are_refused(counts):
    sides = [
        segments(*(f'<seg id="{number}">a</seg>' for number in range(1, count + 1)))
        for count in counts
    ]
    with pytest.raises(UsageError, match="x has {} segments and y has {};".format(*counts)):
        pair_segments(*sides, ("x", "y"))


def test_pairs_keep_what_the_file_says():
    source = segments('<seg id="1"> a&amp;b </seg>', '<seg id="2"></seg>')
    target = segments('<seg id="1">A</seg>', '<seg id="2">B\u2028</seg>')
    assert pair_segments(source, target, ("x", "y")) == [(" a&amp;b ", "A"), ("", "B\u2028")]


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("R&amp;D &lt;b&gt; &quot;x&quot; it&apos;s", 'R&D <b> "x" it\'s'),
        ("&#8217;&#x2019;&#X2019;", "\u2019\u2019\u2019"),
        ("&amp;amp; &amp;quot;", "&amp; &quot;"),
        ("AT&T, &copy2013 &copy; & &amp", "AT&T, &copy2013 &copy; & &amp"),
    ],
)
def test_entities_of_xml_are_resolved_once_and_nothing_else(text, decoded):
    assert decode_entities(text) == decoded
    assert has_entity(text) == (text != decoded)


def test_references_and_fairseqs_text_differ():
    text = " It\u2019s\xa0R&amp;D\u2028. "
    assert as_fairseq(text) == "It's\xa0R&amp;D\u2028."
    assert as_reference(text) == "It\u2019s R&D ."


def test_resolved_entities_do_not_change_bleu():
    written = ["R&amp;D is &quot;good&quot;.", "A &lt;b&gt; c d e."]
    output = [["R&D is good.", "A <b> c d f."]]
    bleu = BLEU()
    assert bleu.corpus_score(written, output).score == (
        bleu.corpus_score(list(map(as_reference, written)), output).score
    )
