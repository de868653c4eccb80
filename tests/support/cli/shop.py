"""A small shop on an offline store, with something in every kind of listing."""

from __future__ import annotations

from pathlib import Path

from demaq.testing.lab import Lab

SHOP = """
module shop errorqueue troubles;
create queue orders
create queue payments
create queue troubles
create queue reminders kind echo
create queue parcels
create collection prices
create property orderID as xs:integer queue orders, payments value /*/@id
create property express as xs:boolean queue orders value false()
create slicing orderMsgs on orderID
create rule approve for orders if (/order/@euros > 1000) then do enqueue <approve/> into parcels
create rule remind for orders
  if (/order) then do enqueue <unpaid order="{/order/@id}"/> into reminders
    with timeout value xs:dayTimeDuration("P30D") with target value "parcels"
create rule ship for orderMsgs
  if (qs:slice()/order and qs:slice()/payment) then (
    do enqueue <parcel order="{qs:slicekey()}"/> into parcels, do reset)
"""


def open_shop(folder: Path, *bodies: str) -> Path:
    """A store in a folder on which the shop has processed these orders and payments."""
    application, store = folder / "shop.dmq", folder / "shop"
    application.write_text(SHOP, encoding="utf-8")
    with Lab(application, store) as lab:
        for body in bodies:
            lab.enqueue("payments" if "payment" in body else "orders", body)
        lab.run_until_idle()
    return store
