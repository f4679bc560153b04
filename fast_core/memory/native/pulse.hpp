// A thread that counts in a word for as long as its process runs, whatever holds the interpreter.
//
// It takes no lock, allocates nothing and handles no signal, so whatever else the process does,
// forking included, meets none of its state half done. A fork does not copy it: in a copy of the
// process nothing counts, and stop() there leaves the original's thread alone.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "doorbell.hpp"

namespace fastloop {

class Pulse {
 public:
  // Begins to add one to `word` every `period_ns`. Returns 0, or why there is no thread, as errno
  // has it. The caller keeps the word and this object where they are until stop().
  int start(std::atomic<std::int64_t>* word, std::int64_t period_ns) {
    word_ = word;
    period_ns_ = period_ns;
    // Relaxed: creating the thread orders it before all that the thread does.
    stopping_.store(0, std::memory_order_relaxed);
    // A signal that this thread took would not wake the main thread, where Python handles it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread_, nullptr, count, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    owner_ = error == 0 ? getpid() : 0;
    return error;
  }

  // Returns when nothing counts any more. May be called twice.
  void stop() {
    if (owner_ != getpid()) return;
    owner_ = 0;
    // Relaxed: pairs with the loads in count() and in its sleep, which only end it; the join
    // orders whatever follows.
    stopping_.store(1, std::memory_order_relaxed);
    detail::wake_all(stopping_);
    pthread_join(thread_, nullptr);
  }

 private:
  static void* count(void* self) {
    auto& pulse = *static_cast<Pulse*>(self);
#ifdef __linux__
    pthread_setname_np(pthread_self(), "pulse");
#endif
    do {
      // Relaxed: nothing is published by it, and only this thread writes the word. Pairs with the
      // plain loads of whoever wants to know whether it still moves.
      pulse.word_->store(pulse.word_->load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
      detail::sleep_while_equal(pulse.stopping_, 0, pulse.period_ns_);
      // Relaxed: pairs with the store in stop(), which joins.
    } while (pulse.stopping_.load(std::memory_order_relaxed) == 0);
    return nullptr;
  }

  std::atomic<std::int64_t>* word_;
  std::int64_t period_ns_;
  std::atomic<std::uint32_t> stopping_;
  pid_t owner_;  // process in which the thread runs, 0 for none
  pthread_t thread_;
};

}  // namespace fastloop
