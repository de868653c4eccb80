// A client of the secured shop, made with the npm package soap: node client.js MODULES WSDL SOAP MODE KEY CERTIFICATE PARTNER.
// The modes are user, text and sign. It places three orders and makes a remark, and prints a line of JSON for each.
// The package does not look at signatures of answers; xml-crypto, by which it signs, verifies them here.
const fs = require("fs");
const [modules, wsdl, version, mode, key, certificate, partner] = process.argv.slice(2);
const soap = require(`${modules}/soap`);
const PASSWORD = process.env.SHOP_PASSWORD;

function protect() {
  if (mode === "user") return new soap.WSSecurity("ann", PASSWORD, {passwordType: "PasswordDigest"});
  if (mode === "text") return new soap.WSSecurity("ann", PASSWORD, {passwordType: "PasswordText"});
  const options = {hasTimeStamp: true, signerOptions: {idMode: "wssecurity"}};  // without it, an Id is not one of wsu
  return new soap.WSSecurityCert(fs.readFileSync(key), fs.readFileSync(certificate, "utf8"), "", options);
}

function verify(raw) {
  const {SignedXml} = require(`${modules}/xml-crypto`);
  const {DOMParser} = require(`${modules}/@xmldom/xmldom`);
  const [signature] = Array.from(new DOMParser().parseFromString(raw, "text/xml").getElementsByTagName("ds:Signature"));
  const verifier = new SignedXml({publicCert: fs.readFileSync(partner), idMode: "wssecurity"});
  verifier.loadSignature(signature);
  verifier.checkSignature(raw);
  return verifier.getSignedReferences();
}

function call(operation, words) {
  return new Promise((resolve) => {
    operation(words, (error, result, raw) => {
      if (error) return resolve({error: error.message});
      resolve({result, signed: mode === "sign" && raw ? verify(raw.toString()) : []});
    });
  });
}

soap.createClientAsync(wsdl, {forceSoap12Headers: version === "1.2"}).then(async (client) => {
  for (const pieces of [1, 2, 3]) {
    client.setSecurity(protect());
    console.log(JSON.stringify(await call(client.placeOrder, {item: "tea", pieces})));
  }
  client.setSecurity(protect());
  console.log(JSON.stringify(await call(client.remark, {$value: "by node"})));
});
