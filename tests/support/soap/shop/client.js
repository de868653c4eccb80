// A client of the shop, made with the npm package soap from the WSDL that the node serves: node client.js MODULES WSDL PORT.
// It prints a line of JSON for each order, and one for a remark.
const [modules, wsdl, port] = process.argv.slice(2);
const soap = require(`${modules}/soap`);

function call(operation, words) {
  return new Promise((resolve) => {
    operation(words, (error, result) => {
      if (!error) return resolve({result});
      const body = error.root && error.root.Envelope && error.root.Envelope.Body;
      resolve({status: error.response && error.response.status, fault: body && body.Fault, error: error.message});
    });
  });
}

soap.createClientAsync(wsdl, {forceSoap12Headers: port === "Shop12"}).then(async (client) => {
  const shop = client.ShopService[port];
  console.log(JSON.stringify(Object.keys(client.ShopService)));
  for (const [item, pieces] of [["tea", 3], ["gold", 1], ["silver", 1], ["tea", -3]]) {
    console.log(JSON.stringify(await call(shop.placeOrder, {item, pieces})));
  }
  console.log(JSON.stringify(await call(shop.remark, {text: `by node at ${port}`})));
});
