// Writes httpsign-recording.json: messages that github.com/yaronf/httpsign v0.5.0 (commit 6dbaa5c) signs.
package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/yaronf/httpsign"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ec, pss := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), must(rsa.GenerateKey(rand.Reader, 2048))
	public, ed, _ := ed25519.GenerateKey(rand.Reader)
	keys, messages := jwk.NewSet(), []any{}
	for kid, raw := range map[string]any{"ec": ec.PublicKey, "ed": public, "rsa": pss.PublicKey} {
		key := must(jwk.Import(raw))
		key.Set("kid", kid)
		keys.AddKey(key)
	}
	config := func(kid string, hasAlg bool) *httpsign.SignConfig {
		return httpsign.NewSignConfig().SignAlg(hasAlg).SetKeyID(kid).SetTag("fapi-2-request").SetNonce(rand.Text()).SetExpiresAfter(60)
	}
	many := httpsign.NewFields().AddHeaders("@method", "@target-uri", "authorization", "content-digest", "@authority", "@scheme", "@path",
		"@query", "x-note").AddHeaderExt("x-note", false, true, false, false).AddQueryParam("café").AddStructuredField("priority").
		AddDictHeader("priority", "u").AddDictHeader("priority", "i")
	for _, fields := range []httpsign.Fields{httpsign.Headers("@method", "@target-uri", "authorization", "content-digest"), *many} {
		for _, signer := range []*httpsign.Signer{
			must(httpsign.NewP256Signer(*ec, config("ec", true), fields)), must(httpsign.NewJWSSignerV3(jwa.ES256(), ec, config("ec", false), fields)),
			must(httpsign.NewEd25519Signer(ed, config("ed", true), fields)), must(httpsign.NewJWSSignerV3(jwa.EdDSA(), ed, config("ed", false), fields)),
			must(httpsign.NewRSAPSSSigner(*pss, config("rsa", true), fields)), must(httpsign.NewJWSSignerV3(jwa.PS256(), pss, config("rsa", false), fields)),
		} {
			target, body := "/a//b%2Dc?x=1&caf%C3%A9=a+b%20c", `{"amount":"12.50"}`
			request := must(http.NewRequest("POST", "https://api.bank.example"+target, strings.NewReader(body)))
			digest := must(httpsign.GenerateContentDigestHeader(&request.Body, []string{httpsign.DigestSha256, httpsign.DigestSha512}))
			request.Header = http.Header{"Authorization": {"Bearer a.b.c"}, "Content-Digest": {digest}, "X-Note": {"one", "two"}, "Priority": {"u=1,   i"}}
			input, signature, err := httpsign.SignRequest("go", *signer, request)
			request.Header["Signature-Input"], request.Header["Signature"] = []string{must(input, err)}, []string{signature}
			messages = append(messages, map[string]any{"method": "POST", "target": target, "headers": request.Header, "body": body})
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"keys": keys, "messages": messages,
		"comment": "Made by httpsign-recording.go with github.com/yaronf/httpsign v0.5.0 (commit 6dbaa5c)"})
}
