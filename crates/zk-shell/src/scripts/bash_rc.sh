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
