"""Turn pending outcomes into judged ones.

In go jobs (`model.judge_jobs.JudgeJob`), each a trace with the outcomes that wait for the judge; out come judgements,
with a final outcome for each and the exchanges with the model.

    referrals         decide at evaluation which outcomes the judge is to give, without asking
    queue             holds the jobs and works them off, through outages of the endpoint
    judgements        have the trace of a job read and judged
    panel             chooses the questions of each vote on a trace, and makes outcomes of the votes
    questions, prompt hold what is asked, how a trace is shown, and how a reply is read
    asking, cache     put a question until its reply is valid, once for equal questions
    budget, client    account for each HTTP request, and send it
    canaries, drift   put a trace to the judge again, day by day, to see whether it says something else
    bias              puts changed traces to the judge, to see what it minds; frozen keeps what it was shown
    quality           says at which rates traces pass, corrected by what people said
"""
