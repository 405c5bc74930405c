"""Makes this Python import torch_tiny from the working tree and torch find it by its entry point. Run again, it changes nothing."""
import os
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME, VERSION = "torch_tiny", "0.1.0"
FILES = {
    f"{NAME}.pth": os.path.join(ROOT, "torch_ext") + "\n",
    f"{NAME}-{VERSION}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: torch-tiny\nVersion: {VERSION}\n",
    f"{NAME}-{VERSION}.dist-info/INSTALLER": "torch-tiny make\n",
    f"{NAME}-{VERSION}.dist-info/entry_points.txt": "[torch.backends]\ntiny = torch_tiny:_autoload\n\n"
                                                    "[torch_dynamo_backends]\ntiny = torch_tiny.dynamo:backend\n",
}


def main():
    site = sysconfig.get_path("purelib")
    record = f"{NAME}-{VERSION}.dist-info/RECORD"
    files = {**FILES, record: "".join(f"{name},,\n" for name in (*FILES, record))}
    for name, text in files.items():
        path = os.path.join(site, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or open(path).read() != text:
            with open(path, "w") as f:
                f.write(text)


if __name__ == "__main__":
    main()
