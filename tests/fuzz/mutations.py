"""Inputs made from other inputs, by a generator of random numbers."""

from __future__ import annotations

import itertools
import random

from demaq.encodings import KNOWN, encoding_named

ENCODINGS = sorted({name for name in map(encoding_named, KNOWN) if name is not None})
BYTES_MAX = 200_000
CHANGES_MAX = 6
REPEATS = (2, 10, 100, 1_000, 10_000)
COLLIDING = [b"".join(word) for word in itertools.product([b"Aa", b"BB"], repeat=8)]
PIECES = [
    b"<", b">", b"/>", b"</", b"<a>", b"</a>", b"<a/>", b"&", b"&amp;", b"&#0;", b"&#13;", b"&#xD800;", b"&#x10FFFF;", b"&x;", b"]]>",
    b"<![CDATA[", b"<!--", b"-->", b"--", b"<?", b"?>", b"<?xml version='1.0'?>", b"<?xml version='1.1'?>", b"<?xml version='1.0' encoding='",
    b"<!DOCTYPE a>", b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"<!doctype", b" xmlns='urn:x'", b" xmlns:e=''", b" xmlns=''", b" xml:base='x'",
    b" xmlns:xml='x'", b" xml:space='preserve'", b" a='1'", b" a=\"", b"'", b'"', b"=", b":", b";", b"\0", b"\xff", b"\xff\xfe", b"\xfe\xff",
    b"\xef\xbb\xbf", b"\xc0\xbc", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbf\xbe", b"\x0b", b"\x1a", b"\x7f",
    b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\t", b" ", b"Content-Length: 3\r\n", b"Content-Length: 99999999999999999999\r\n", b"Host: x\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
    b"Content-Type: text/xml; charset=", b"Content-Type: multipart/mixed; boundary=x\r\n", b"--x\r\n", b"--x--\r\n", b"=?utf-8?b?////?=",
    b"=?x?q?=FF?=", b"Content-Transfer-Encoding: base64\r\n", b"Content-Transfer-Encoding: quoted-printable\r\n", b"=3D", b"=\r\n", b"%00", b"%",
    b"../", b"#", b"?wsdl", b"HTTP/1.1", b"<e:Body>", b"</e:Body>", b"<e:Header>", b" e:mustUnderstand='1'", b" xsi:type='x:y'", b" xsi:nil='true'",
    b" href='#a'", b"1e400", b"-0", b"99999999999999999999", b"{", b"}", b"\xc3\xa9", b"\xf0\x9f\x8d\xb5",
]  # fmt: skip


def mutate(random: random.Random, corpus: list[bytes], kind_corpus: list[bytes]) -> bytes:
    """Return an input like one of its kind, changed a few times; pieces come from the whole corpus."""
    data = random.choice(kind_corpus)
    for _ in range(random.randint(1, CHANGES_MAX)):
        data = _change(random, data, corpus)[:BYTES_MAX]
    return data


def _change(random: random.Random, data: bytes, corpus: list[bytes]) -> bytes:
    at = random.randint(0, len(data))
    end = min(len(data), at + random.choice((1, 1, 2, 4, 8, 20, 100, 1_000)))
    match random.randrange(11):
        case 0:
            return data[:at] + data[end:]
        case 1:
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case 2 | 3 | 4:
            return data[:at] + random.choice(PIECES) + data[at:]
        case 5:
            return data[:at] + random.choice(PIECES) + data[end:]
        case 6:
            return (
                data[:at] + data[at:end] * min(random.choice(REPEATS), BYTES_MAX // max(end - at, 1) + 1) + data[end:]
            )
        case 7:
            other = random.choice(corpus)
            begins = random.randint(0, len(other))
            return data[:at] + other[begins : begins + random.choice((10, 100, 1_000))] + data[end:]
        case 8:
            name = random.choice(ENCODINGS)
            text = data.decode("utf-8", "replace")
            if random.random() < 0.5:
                text = f"<?xml version='1.0' encoding='{name}'?>{text}"
            return text.encode(name, "replace" if random.random() < 0.5 else "xmlcharrefreplace")
        case 9:
            return data[:at] + _many_names(random) + data[at:]
        case _:
            return data[:at]


def _many_names(random: random.Random) -> bytes:
    names = random.sample(COLLIDING, random.choice((1, 10, 200)))
    form = random.choice((b"<%s/>", b"<%s>", b" %s=''", b" xmlns:%s='u'", b"<a xmlns='%s'/>", b"%s: 1\r\n", b"<?%s?>"))
    return b"".join([form % name for name in names])
