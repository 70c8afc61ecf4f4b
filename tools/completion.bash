# Completes intarsia, intarsia-compile, intarsia-quantize, intarsia-run and intarsia-worker in bash: commands, flags and their values
# as --help of the program lists them, else names of files. Installed under the name of each program in share/bash-completion/completions.
_intarsia() {
  local word=${COMP_LINE:0:COMP_POINT} words help=("$1")
  word=${word##* }
  COMPREPLY=()
  if [[ ${1##*/} == intarsia ]]; then
    # What stands between the program and the word: a command, and behind bench a kind.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT-${#word}}"
    words=("${words[@]:1}")
    [[ ${words[0]} == bench ]] && help+=("${words[@]:0:2}") || help+=("${words[@]:0:1}")
    if [[ $word != -* ]] && ((${#words[@]} == 0 || ${#help[@]} == 2 && ${#words[@]} == 1)) &&
      [[ ${words[0]:-bench} == bench ]]; then
      words=$("${help[@]}" --help 2>/dev/null | sed -nE 's/^ {2,4}([a-z][a-z-]*)(  +.*)?$/\1/p')
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
      return
    fi
  fi
  case $word in
  -*=*)
    # "--emit=<value>" is followed by lines "=shared - …"; Python writes "--engine {vllm,sglang}".
    words=$("${help[@]}" --help 2>/dev/null | awk -v flag="${word%%=*}" '
      $1 ~ /^-/ { inside = index($1, flag "=") == 1 }
      inside && $1 ~ /^=/ { print substr($1, 2) }
      $1 == flag && $2 ~ /^{.*}$/ { gsub(/[{},]/, " ", $2); print $2 }')
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "${word#*=}")
    ;;
  -*)
    # "--input NAME=@FILE.npy" and "--benchmark[=N]" take values as "--emit=<value>" does.
    words=$("${help[@]}" --help 2>/dev/null | sed -nE \
      's/^ +(-[a-z], ?)?(--?[a-z][a-z-]*)(\[?=| [A-Z@<{]).*/\2=/p; t; s/^ +(-[a-z], ?)?(--?[a-z][a-z-]*).*/\2/p')
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
    return
    ;;
  esac
  if ((${#COMPREPLY[@]} == 0)); then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "${word##*[=@]}")
  fi
}
complete -F _intarsia intarsia intarsia-compile intarsia-quantize intarsia-run intarsia-worker
