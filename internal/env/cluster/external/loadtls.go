package external

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
)

// tls reads the encryption settings. Authorities and keys may be given as files or inline, under librdkafka's or
// Java's keys.
func (s *settings) tls(wanted bool) TLS {
	server, serverKey := s.get("dlqbench.ssl.server.name")
	result := TLS{Enabled: wanted, ServerName: server, AnyHost: s.anyHost()}
	ca, caKey := s.authorities()
	certificate, key, ownKey := s.identity()
	if !wanted {
		if key := cmp.Or(caKey, ownKey, serverKey); key != "" {
			s.problem(key+" is set, but security.protocol says that connections are not encrypted: set it to SSL or SASL_SSL, "+
				"as the cluster's listener has it", key)
		}
		return TLS{}
	}
	result.CA, result.Certificate, result.Key = ca, certificate, key
	if ca != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) {
		s.problem(caKey+" gives no certificate in PEM form (-----BEGIN CERTIFICATE-----)", caKey)
	}
	if certificate == "" && key.Empty() {
		return result
	}
	if _, err := tls.X509KeyPair([]byte(certificate), []byte(key.Reveal())); err != nil {
		s.problem(ownKey+": the client's certificate and its private key are no pair in PEM form: "+keyTrouble(certificate,
			key, err), ownKey)
	}
	return result
}

// keyTrouble describes the problem with a pair of certificate and key. The errors of crypto/tls quote no key
// material.
func keyTrouble(certificate string, key Secret, err error) string {
	switch {
	case certificate == "":
		return "the certificate is missing"
	case key.Empty():
		return "the key is missing"
	case strings.Contains(key.Reveal(), "ENCRYPTED"):
		return "the key is encrypted; " + refusal("ssl.key.password")
	}
	return strings.TrimPrefix(err.Error(), "tls: ")
}

// anyHost reads ssl.endpoint.identification.algorithm: Java's clients check no host if it is empty, librdkafka if it
// is "none".
func (s *settings) anyHost() bool {
	algorithm, key := s.get("ssl.endpoint.identification.algorithm")
	switch {
	case key == "", strings.EqualFold(algorithm, "https"):
		return false
	case algorithm == "", strings.EqualFold(algorithm, "none"):
		return true
	}
	s.problem(fmt.Sprintf("%s is %q: it must be https, or empty or none for not checking the host", key, algorithm), key)
	return false
}

// authorities returns the trusted certificates and the setting that contains them.
func (s *settings) authorities() (ca, from string) {
	readable := s.storeType("ssl.truststore.type")
	s.get("ssl.truststore.password") // a PEM file has none, and explaining why another cannot be read needs none
	if inPlace, key := s.get("ssl.ca.pem", "ssl.truststore.certificates"); key != "" {
		return inPlace, key
	}
	path, key := s.get("ssl.ca.location", "ssl.truststore.location")
	if path == "" || !readable {
		return "", ""
	}
	return s.file(path, key), key
}

// identity returns the client's certificate, its private key and the setting that contains them.
func (s *settings) identity() (certificate string, key Secret, from string) {
	readable := s.storeType("ssl.keystore.type")
	s.get("ssl.keystore.password")
	if e, ok := s.given["ssl.key.password"]; ok && e.value == "" {
		s.get("ssl.key.password") // empty stands for none
	}
	if path, from := s.get("ssl.keystore.location"); from != "" { // Java's PEM key store has both in one file
		if !readable {
			return "", Secret{}, ""
		}
		both := s.file(path, from)
		return both, NewSecret(both), from
	}
	certificate, certificateKey := s.get("ssl.certificate.pem", "ssl.keystore.certificate.chain")
	if path, from := s.get("ssl.certificate.location"); from != "" {
		certificate, certificateKey = s.file(path, from), from
	}
	inPlace, keyKey := s.get("ssl.key.pem", "ssl.keystore.key")
	if path, from := s.get("ssl.key.location"); from != "" {
		inPlace, keyKey = s.file(path, from), from
	}
	return certificate, NewSecret(inPlace), cmp.Or(certificateKey, keyKey)
}

// storeType rejects Java's own store types by name. It reports whether the store can be read.
func (s *settings) storeType(key string) (readable bool) {
	kind, given := s.get(key)
	if given == "" || strings.EqualFold(kind, "PEM") {
		return true
	}
	s.problem(fmt.Sprintf("%s is %s: only PEM can be read. %s", key, strings.ToUpper(kind), howToConvert(key)), key)
	return false
}

// howToConvert explains how to convert one of Java's stores to PEM.
func howToConvert(key string) string {
	if strings.HasPrefix(key, "ssl.keystore") {
		return "Convert it with `keytool -importkeystore -srckeystore STORE -destkeystore client.p12 -deststoretype " +
			"PKCS12` (not needed for a PKCS12 store) and `openssl pkcs12 -in client.p12 -nodes -out client.pem`, then set " +
			"ssl.keystore.location to client.pem and ssl.keystore.type to PEM"
	}
	return "Convert it with `keytool -list -rfc -keystore STORE > ca.pem`, then set ssl.ca.location to ca.pem (or " +
		"ssl.truststore.location, with ssl.truststore.type=PEM)"
}

// file reads a file of certificates or keys in PEM form. Relative paths are relative to the working directory, as they
// are for Kafka's clients.
func (s *settings) file(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		s.problem(fmt.Sprintf("%s can't be read: %v", key, err), key)
		return ""
	}
	if block, _ := pem.Decode(data); block != nil {
		return string(data)
	}
	kind := "nothing in PEM form"
	switch {
	case bytes.HasPrefix(data, []byte{0xfe, 0xed, 0xfe, 0xed}):
		kind = "a Java key store (JKS)"
	case bytes.HasPrefix(data, []byte{0x30}):
		kind = "a binary store or certificate (PKCS12 or DER)"
	}
	if strings.HasSuffix(key, "store.location") {
		s.problem(fmt.Sprintf("%s: the file holds %s, and only PEM can be read. %s", key, kind, howToConvert(key)), key)
	} else {
		s.problem(fmt.Sprintf("%s: the file holds %s; PEM is needed (-----BEGIN …-----)", key, kind), key)
	}
	return ""
}
