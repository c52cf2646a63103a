if @LOGIN@; then
  [[ -r /etc/profile ]] && . /etc/profile
  for __zk_file in ~/.bash_profile ~/.bash_login ~/.profile; do
    if [[ -r $__zk_file ]]; then
      . "$__zk_file"
      break
    fi
  done
  unset __zk_file
elif [[ -r ~/.bashrc ]]; then
  . ~/.bashrc
fi
# In a file of its own, whose commands no DEBUG trap sees.
case $- in
  *x*) { set +x; . "${BASH_SOURCE[0]%/*}/marks"; set -x; } 2>/dev/null ;;
  *) . "${BASH_SOURCE[0]%/*}/marks" ;;
esac
