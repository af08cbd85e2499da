#pragma once

// The C library's own functions behind those that this library puts before them. Found when first
// called: other libraries' constructors may call before ours has run. Any thread.

#include <dlfcn.h>

#include <atomic>

namespace weft::compat {

template <class Function>
class Real;

template <class Result, class... Arguments>
class Real<Result(Arguments...)> {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}

  Result operator()(Arguments... arguments) const {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) [[unlikely]] {
      function = find();
    }
    return function(arguments...);
  }

 private:
  using Function = Result(Arguments...);

  [[gnu::cold, gnu::noinline]] Function* find() const {
    // What POSIX asks for: an object pointer that is a function's.
    auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  const char* name_;
  mutable std::atomic<Function*> function_{nullptr};
};

}  // namespace weft::compat
