//! Removes what servers that were killed left in S3: multipart uploads that were neither completed nor aborted.
//!
//! OpenDAL neither lists nor aborts uploads that it did not begin, so this module sends these requests itself, signed
//! with the keys that OpenDAL uses. Credentials by a role that the address names are not supported.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hyper::http::{Method, Request, request};
use opendal::raw::{Timestamp, percent_encode_path};
use opendal::services::S3Config;
use opendal::{Buffer, Configurator as _, Error, ErrorKind, HttpTransporter, Operator, OperatorUri, Result};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, OsEnv, ProvideCredentialChain, Signer};
use reqsign_file_read_tokio::TokioFileRead;
use serde::Deserialize;

use super::super::fs::{self, Part};
use super::{Bucket, PATIENCE, failed};

/// The time for which a request is signed. Only its address is used.
const SIGNED_FOR: std::time::Duration = PATIENCE;

/// The bucket of an address, with keys.
pub(super) struct Remains {
    /// The whole bucket.
    all: Operator,
    /// The beginning of the keys of the address: empty, or with a `/` at its end.
    root: String,
    signer: Signer<Credential>,
    transport: HttpTransporter,
}

impl std::fmt::Debug for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remains").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A page of a listing of uploads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Page {
    upload: Vec<Upload>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Upload {
    key: String,
    upload_id: String,
    initiated: String,
}

impl Remains {
    /// The bucket of an address; `None` if it is not one of S3, or its keys come from a role.
    pub(super) fn open(address: &str) -> Result<Option<Self>> {
        if !address.starts_with("s3://") {
            return Ok(None);
        }
        let mut config = S3Config::from_uri(&OperatorUri::new(address, [])?)?;
        let region = config.region.clone().or_else(|| std::env::var("AWS_REGION").ok());
        let region = region.or_else(|| std::env::var("AWS_DEFAULT_REGION").ok()).unwrap_or_default();
        if config.role_arn.is_some() || config.skip_signature || config.bucket.ends_with("--x-s3") {
            return Ok(None);
        }
        let root = config.root.take().unwrap_or_default();
        let root = root.trim_matches('/');
        let root = if root.is_empty() { String::new() } else { format!("{root}/") };
        let mut usual = DefaultCredentialProvider::builder();
        if config.disable_config_load {
            usual = usual.no_env().no_profile();
        } else if let Some(profile) = config.profile.as_deref().filter(|profile| !profile.is_empty()) {
            usual = usual.with_profile(profile);
        }
        if config.disable_ec2_metadata {
            usual = usual.no_imds();
        }
        let mut keys = ProvideCredentialChain::new().push(usual.build());
        if let (Some(id), Some(secret)) = (&config.access_key_id, &config.secret_access_key) {
            let given = StaticCredentialProvider::new(id, secret);
            keys = keys.push_front(match config.session_token.as_deref() {
                Some(token) => given.with_session_token(token),
                None => given,
            });
        }
        let transport = HttpTransporter::default();
        let context =
            Context::new().with_file_read(TokioFileRead).with_http_send(transport.clone()).with_env(OsEnv);
        let signer = Signer::new(context, keys, RequestSigner::new("s3", &region));
        Ok(Some(Self { all: Operator::from_config(config)?, root, signer, transport }))
    }

    /// The address of a key, which may be empty, without options.
    async fn address(&self, key: &str) -> Result<String> {
        const ANY: &str = "x";
        let signed = self.all.presign_stat(ANY, SIGNED_FOR).await?.uri().to_string();
        let bucket = signed.split('?').next().and_then(|address| address.strip_suffix(ANY));
        let bucket = bucket.ok_or_else(|| Error::new(ErrorKind::Unexpected, "an address without its key"))?;
        Ok(format!("{bucket}{}", percent_encode_path(key)))
    }

    async fn send(&self, method: Method, address: &str) -> Result<Buffer> {
        let invalid = |error| Error::new(ErrorKind::Unexpected, "a wrong request").set_source(error);
        let unsigned = Request::builder().method(method).uri(address).body(Buffer::new()).map_err(invalid)?;
        let (mut parts, body): (request::Parts, Buffer) = unsigned.into_parts();
        let signed = self.signer.sign(&mut parts, None).await;
        signed.map_err(|error| {
            Error::new(ErrorKind::PermissionDenied, "a request cannot be signed").set_source(error)
        })?;
        // The HTTP client writes it.
        parts.headers.remove(hyper::header::HOST);
        let sent = tokio::time::timeout(PATIENCE, self.transport.send(Request::from_parts(parts, body)));
        let answer =
            sent.await.map_err(|_| Error::new(ErrorKind::Unexpected, "the store does not answer"))??;
        match answer.status() {
            status if status.is_success() => Ok(answer.into_body()),
            status => Err(Error::new(ErrorKind::Unexpected, format!("the store answers {status}"))),
        }
    }

    /// Removes the uploads below `prefix` that began before a time, and returns their keys below it.
    async fn remove(&self, prefix: &str, before: SystemTime, most: usize) -> Result<Vec<Part>> {
        let prefix = format!("{}{prefix}", self.root);
        let mut removed = Vec::new();
        let (mut key_marker, mut upload_marker) = (String::new(), String::new());
        while removed.len() < most {
            let mut options = vec![("uploads", ""), ("prefix", prefix.as_str())];
            if !key_marker.is_empty() {
                options.extend([("key-marker", key_marker.as_str()), ("upload-id-marker", &upload_marker)]);
            }
            let listing = format!("{}?{}", self.address("").await?, query(&options));
            let text = self.send(Method::GET, &listing).await?.to_vec();
            let page: Page = quick_xml::de::from_reader(text.as_slice())
                .map_err(|error| Error::new(ErrorKind::Unexpected, "a wrong listing").set_source(error))?;
            for upload in page.upload {
                let began = upload.initiated.parse::<Timestamp>().map(SystemTime::from);
                let (Some(path), Ok(changed)) = (upload.key.strip_prefix(&prefix), began) else { continue };
                if changed >= before || removed.len() >= most {
                    continue;
                }
                let id = query(&[("uploadId", &upload.upload_id)]);
                let address = format!("{}?{id}", self.address(&upload.key).await?);
                self.send(Method::DELETE, &address).await?;
                removed.push(Part { path: PathBuf::from(path), size: 0, changed });
            }
            (key_marker, upload_marker) = (page.next_key_marker, page.next_upload_id_marker);
            if !page.is_truncated || key_marker.is_empty() {
                break;
            }
        }
        Ok(removed)
    }
}

/// The options of an address. S3 wants a space as %20.
fn query(options: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(options).finish().replace('+', "%20")
}

impl Bucket {
    /// Removes the parts of uploads that began before a time and were not completed, at most `most`; those of uploads that still run,
    /// too. In stores other than S3 nothing happens. The sizes of those that it returns are unknown.
    ///
    /// # Errors
    ///
    /// The store refuses or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Safe: what was not removed is found again.
    pub async fn remove_parts(
        &self,
        before: SystemTime,
        most: usize,
    ) -> std::result::Result<Vec<Part>, fs::Error> {
        let Some(remains) = &self.remains else { return Ok(Vec::new()) };
        let removed = remains.remove(&self.prefix, before, most).await;
        removed.map_err(|error| failed("remove the parts of old uploads to", Path::new(""), &error))
    }

    /// Whether [`Bucket::remove_parts`] can remove anything.
    pub fn can_remove_parts(&self) -> bool {
        self.remains.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_of_uploads_is_read() {
        let text = "<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Bucket>b</Bucket><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
                    <Upload><Key>a/&amp;</Key><UploadId>1</UploadId><Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload>\
                    <Upload><Key>c</Key><UploadId>2</UploadId></Upload></ListMultipartUploadsResult>";
        let page: Page = quick_xml::de::from_reader(text.as_bytes()).unwrap();
        assert!(page.is_truncated && page.next_key_marker == "k" && page.upload.len() == 2);
        assert_eq!(page.upload[0].key, "a/&");
        assert!(page.upload[0].initiated.parse::<Timestamp>().is_ok());
        assert!(page.upload[1].initiated.parse::<Timestamp>().is_err(), "it is kept");
    }
}
