/* A client of the shop, made with gSOAP from the WSDL that the node serves: client ENDPOINT VERSION ITEM PIECES [TEXT].
   It places an order, or says a remark where TEXT is given, and prints what became of it in one line. */
#include "soapH.h"
#include "ShopSoap11.nsmap"

static int print_fault(struct soap *soap)
{
    struct SOAP_ENV__Detail *detail;
    const char *reason;
    if (soap->fault == NULL) {
        printf("error %d, and no fault\n", soap->error);
        return 2;
    }
    detail = soap->version == 2 ? soap->fault->SOAP_ENV__Detail : soap->fault->detail;
    reason = *soap_faultstring(soap);
    if (detail != NULL && detail->ns2__soldOut != NULL)
        printf("sold out: %s, %s %s\n", detail->ns2__soldOut->item, detail->ns2__soldOut->lastPrice->amount,
               detail->ns2__soldOut->lastPrice->currency);
    else if (detail != NULL && detail->ns2__unknownItem != NULL)
        printf("unknown item: %s\n", detail->ns2__unknownItem->item);
    else
        printf("fault %s: %s\n", *soap_faultcode(soap), reason != NULL ? reason : "");
    return 0;
}

int main(int count, char **words)
{
    struct soap *soap;
    struct _ns2__confirmation confirmation;
    struct _ns2__order order;
    int failed;
    if (strcmp(words[2], "1.1") == 0) { /* the table has SOAP 1.2 */
        namespaces[0].ns = "http://schemas.xmlsoap.org/soap/envelope/";
        namespaces[1].ns = "http://schemas.xmlsoap.org/soap/encoding/";
    }
    soap = soap_new();
    soap->connect_timeout = soap->recv_timeout = soap->send_timeout = 30;
    if (count > 5) {
        struct _ns2__remark remark;
        remark.text = words[5];
        failed = soap_send___ns1__remark(soap, words[1], NULL, &remark) || soap_recv_empty_response(soap);
        if (failed)
            return print_fault(soap);
        printf("said\n");
        return 0;
    }
    order.item = words[3];
    order.pieces = words[4];
    failed = soap_call___ns1__placeOrder(soap, words[1], NULL, &order, &confirmation);
    if (failed)
        return print_fault(soap);
    printf("confirmed: %s %s\n", confirmation.price->amount, confirmation.price->currency);
    return 0;
}
