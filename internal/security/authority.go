package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
	"unicode/utf16"
)

// Authority is a certificate authority that was made for one server, and signed only its certificate. The private keys
// exist in memory alone.
type Authority struct {
	// PEM is the authority's certificate, and TrustStore the same as a PKCS #12 file for Java, without a password.
	PEM, TrustStore []byte
	// Server are the settings of the server that the certificate is for: localhost, 127.0.0.1 and ::1.
	Server *tls.Config
}

// validity is how long certificates are valid: longer than any run.
const validity = 365 * 24 * time.Hour

// NewAuthority makes an authority with this name and a server's certificate.
func NewAuthority(name string) (*Authority, error) {
	keys := make([]*ecdsa.PrivateKey, 2)
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, fmt.Errorf("making a key for TLS: %w", err)
		}
	}
	from := time.Now().Add(-time.Hour) // clocks of virtual machines lag
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: from.Add(validity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, keys[0].Public(), keys[0])
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: from,
		NotAfter: from.Add(validity), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, root, keys[1].Public(), keys[0])
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	store, err := trustStore(name, rootDER)
	return &Authority{
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), TrustStore: store,
		Server: &tls.Config{MinVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: keys[1]}}},
	}, err
}

// A PKCS #12 file with one certificate (RFC 7292), neither encrypted nor with a checksum by a password: Java reads it
// with any password, and without.
type (
	pkcs12 struct {
		Version int
		Content contentInfo
	}
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content []byte `asn1:"tag:0,explicit"`
	}
	certificateBag struct {
		ID          asn1.ObjectIdentifier
		Certificate struct {
			ID   asn1.ObjectIdentifier
			Data []byte `asn1:"tag:0,explicit"`
		} `asn1:"tag:0,explicit"`
		Attributes []attribute `asn1:"set"`
	}
	attribute struct {
		ID     asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
)

// trustStore returns the file with a certificate that is trusted.
func trustStore(name string, der []byte) ([]byte, error) {
	var label []byte
	for _, unit := range utf16.Encode([]rune(name)) {
		label = append(label, byte(unit>>8), byte(unit))
	}
	const tagBMPString = 30
	anyUsage, failed := asn1.Marshal(asn1.ObjectIdentifier{2, 5, 29, 37, 0})
	bag := certificateBag{ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}, Attributes: []attribute{
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}, []asn1.RawValue{{Tag: tagBMPString, Bytes: label}}},
		// Java takes a certificate with this attribute as trusted.
		{asn1.ObjectIdentifier{2, 16, 840, 1, 113894, 746875, 1, 1}, []asn1.RawValue{{FullBytes: anyUsage}}},
	}}
	bag.Certificate.ID = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	bag.Certificate.Data = der
	wrapped := func(content any) contentInfo {
		encoded, err := asn1.Marshal(content)
		failed = errors.Join(failed, err)
		return contentInfo{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}, encoded}
	}
	file, err := asn1.Marshal(pkcs12{3, wrapped([]contentInfo{wrapped([]certificateBag{bag})})})
	if err = errors.Join(failed, err); err != nil {
		return nil, fmt.Errorf("writing a trust store: %w", err)
	}
	return file, nil
}
