//! QUIC by quinn, as the programs of this folder use it: the same windows, a made-up certificate that nobody verifies.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The maximum number of bytes in flight, as in `braidftp`'s profile `modern`.
const WINDOW_BYTES: u32 = 8 << 20;

/// The congestion controller of sent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// quinn's default.
    Cubic,
    /// quinn's BBR, which its documentation calls experimental.
    Bbr,
}

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            _ => Err(format!("there is no controller `{text}`; there are: cubic, bbr")),
        }
    }
}

/// An endpoint that accepts connections at this address.
pub fn server(local: SocketAddr, alpn: &[u8], congestion: Congestion) -> Result<quinn::Endpoint> {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.into()], private.into())?;
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(congestion));
    Ok(quinn::Endpoint::server(config, local)?)
}

/// An endpoint that opens connections from this address and accepts any certificate.
pub fn client(local: SocketAddr, alpn: &[u8], congestion: Congestion) -> Result<quinn::Endpoint> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(congestion));
    let mut endpoint = quinn::Endpoint::client(local)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

fn transport(congestion: Congestion) -> Arc<quinn::TransportConfig> {
    let mut transport = quinn::TransportConfig::default();
    transport
        .send_window(WINDOW_BYTES.into())
        .receive_window(WINDOW_BYTES.into())
        .stream_receive_window(WINDOW_BYTES.into());
    if congestion == Congestion::Bbr {
        transport.congestion_controller_factory(Arc::new(quinn::congestion::BbrConfig::default()));
    }
    Arc::new(transport)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts any certificate.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
