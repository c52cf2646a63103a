use anyhow::Result;
use serde_json::{Value, json};

use super::entry::{Entry, gzip, hex, sha256, tar};
use super::{About, Contents};

/// Image with the program and its licences alone, as files of a layout below one folder. Wants a static program,
/// since nothing else is in the image.
pub(super) fn layout(about: &About<'_>, contents: &Contents) -> Result<Vec<Entry>> {
    let mut files = vec![Entry::program("usr/bin/zk", about.binary.bytes.clone())];
    files.extend(contents.texts.iter().map(|text| text.below("usr/share/doc/zk")));
    let layer = tar(&files, about.seconds)?;
    let packed = gzip(&layer)?;
    let config = serde_json::to_vec(&json!({
        "architecture": about.target.oci_cpu,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/zk"],
            "Env": ["PATH=/usr/bin:/bin"],
            "WorkingDir": "/work",
            "Labels": {
                "org.opencontainers.image.source": about.repository,
                "org.opencontainers.image.version": about.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    }))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", &packed)],
    }))?;
    let mut pointer = described("application/vnd.oci.image.manifest.v1+json", &manifest);
    if let Some(fields) = pointer.as_object_mut() {
        fields
            .insert("annotations".to_owned(), json!({ "org.opencontainers.image.ref.name": about.version }));
        fields.insert("platform".to_owned(), json!({ "architecture": about.target.oci_cpu, "os": "linux" }));
    }
    let index = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [pointer],
    }))?;
    let blob = |bytes: Vec<u8>| Entry::file(format!("blobs/sha256/{}", hex(&sha256(&bytes))), bytes);
    Ok(vec![
        Entry::file("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}"),
        Entry::file("index.json", index),
        blob(manifest),
        blob(config),
        blob(packed),
    ])
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&sha256(bytes)))
}

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() })
}
