use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

const CART: &str = "from discounts import percent\n\n\ndef total(items, pct=0):\n    cents = sum(price * count for price, count in items)\n    return percent(cents, pct)\n";

const DISCOUNTS: &str = "\"\"\"Discounts of the shop.\"\"\"\n\nCODES = {\n    \"TEN\": 10,\n}\n\n\ndef percent(cents: int, pct: int) -> int:\n    \"\"\"Take pct percent off.\"\"\"\n    return round(cents * (1 - pct))\n";

const TESTS: &str = "import unittest\n\nfrom cart import total\n\n\nclass Cart(unittest.TestCase):\n    def test_ten_percent(self):\n        self.assertEqual(total([(1000, 1)], 10), 900)\n\n    def test_nothing_off(self):\n        self.assertEqual(total([(250, 4)]), 1000)\n";

/// Home and project of somebody who works on a small shop, until this is dropped.
#[derive(Debug)]
pub(crate) struct Shop {
    home: PathBuf,
}

impl Shop {
    /// A new home with a project, and with these settings.
    pub(crate) fn open(settings: &str) -> Result<Self> {
        let home = std::env::temp_dir().join(format!("zk-picture-{}", std::process::id()));
        let shop = Self { home };
        let project = shop.project();
        fs::create_dir_all(project.join(".git"))?;
        fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n")?;
        fs::write(project.join("AGENTS.md"), "Run the tests with `python3 -m unittest -q`.\n")?;
        for (name, text) in [("cart.py", CART), ("discounts.py", DISCOUNTS), ("test_cart.py", TESTS)] {
            fs::write(project.join(name), text)?;
        }
        if !settings.is_empty() {
            let dir = shop.home.join(".config/zk");
            fs::create_dir_all(&dir)?;
            fs::write(dir.join("settings.toml"), settings)?;
        }
        Ok(shop)
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.home.join("src/shopcart")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // A directory that stays behind harms nobody.
        let _ = fs::remove_dir_all(&self.home);
    }
}
