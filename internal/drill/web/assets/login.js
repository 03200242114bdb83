// Takes the token from behind the # of the address, where browsers keep it to themselves, and out of the history.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("token").value = token;
  document.querySelector("form").submit();
}
