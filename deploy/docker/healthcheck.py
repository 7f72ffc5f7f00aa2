"""Exit with 0 if the collector of this container is ready, by its own /readyz; else with 1 and the reason."""

import os
import ssl
import sys
import urllib.error
import urllib.request

port = os.environ["AGENTEVAL_SERVER__WEB_ADDRESS"].rpartition(":")[2]
scheme = "https" if "AGENTEVAL_SERVER__TLS_CERTIFICATE" in os.environ else "http"
# The certificate is for the name that agents use, not for loopback; nothing secret is sent.
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
try:
    urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/readyz", timeout=4, context=context).close()
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode(errors="replace"))
except OSError as error:
    sys.exit(str(error))
